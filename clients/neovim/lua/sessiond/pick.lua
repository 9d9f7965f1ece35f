-- Choosing among all sessions: completion, and vim.ui.select.
local client = require('sessiond.client')
local say = require('sessiond.say')
local when = require('sessiond.when')

local M = {}

local PAGE = 1000
-- Completion waits no longer than this, and shows what has arrived by then.
local COMPLETE_MS = 1000
-- The same in a fresh editor, whose first Tab starts the connection, and perhaps the daemon.
local FIRST_COMPLETE_MS = 4000

-- So many bytes of an id are shown at least. Those that sessiond makes are shorter, and whole.
local ID = 26

-- The last list, in case no answer comes in time.
local known = {}

-- What goes on in a session that has an activity: `waits: permission`, `works`.
local function doing(activity)
  if activity.state ~= 'waiting' then
    return 'works'
  end
  return activity.waitingFor and 'waits: ' .. activity.waitingFor or 'waits'
end

-- `name · waits: permission · 12 messages · 2026-01-11 14:30 · #tag`
local function describe(session)
  local parts = { session.name or '(no name)' }
  if session.activity then
    table.insert(parts, doing(session.activity))
  end
  table.insert(parts, session.messageCount == 1 and '1 message' or session.messageCount .. ' messages')
  table.insert(parts, when.local_time(session.updatedAt))
  if #session.tags > 0 then
    table.insert(parts, '#' .. table.concat(session.tags, ' #'))
  end
  return (table.concat(parts, ' · '):gsub('%c+', ' '))
end

-- A function from an id to its beginning, just long enough that none of the other sessions' ids begins with it.
local function shortener(sessions)
  local ids = vim.tbl_map(function(session)
    return session.sessionId
  end, sessions)
  table.sort(ids)
  local short = {}
  for n, id in ipairs(ids) do
    local size = ID
    -- Of all others, those beside it have most in common with it.
    while size < #id and (vim.startswith(ids[n - 1] or '', id:sub(1, size)) or vim.startswith(ids[n + 1] or '', id:sub(1, size))) do
      size = size + 1
    end
    size = size + vim.str_utf_end(id, math.min(size, #id))
    short[id] = id:sub(1, size)
  end
  return function(session)
    return short[session.sessionId]
  end
end

-- The text in which words are looked for.
local function searched(session)
  return session.sessionId .. '  ' .. describe(session)
end

local function has(text, words)
  text = vim.fn.tolower(text)
  for _, word in ipairs(words) do
    if not text:find(word, 1, true) then
      return false
    end
  end
  return true
end

local function words_of(text)
  return vim.split(vim.fn.tolower(text), '%s+', { trimempty = true })
end

-- All sessions that are not archived, newest first: done(failure, sessions).
local function list(done, cursor, before)
  before = before or {}
  client.request('session/list', { limit = PAGE, cursor = cursor }, function(failure, page)
    if failure then
      return done(failure)
    end
    vim.list_extend(before, page.sessions)
    if type(page.nextCursor) == 'string' then
      return list(done, page.nextCursor, before)
    end
    known = before
    done(nil, before)
  end)
end

local function all(done)
  list(function(failure, sessions)
    if failure then
      say.error('cannot list the sessions', failure)
    else
      done(sessions)
    end
  end)
end

-- Descriptions in which all words that were typed occur; after the first word, only their ids.
function M.complete(lead, line, pos)
  local answered = false
  list(function()
    answered = true
  end)
  vim.wait(client.ready() and COMPLETE_MS or FIRST_COMPLETE_MS, function()
    return answered
  end, 5)
  local words = words_of(line:sub(1, pos):gsub('^.-Sessiond%a*!?%s*', '', 1))
  local found = {}
  local short = shortener(known)
  for _, session in ipairs(known) do
    if has(searched(session), words) then
      -- Vim replaces only the last word.
      local only = #words > 1 or (#words == 1 and lead == '')
      found[#found + 1] = short(session) .. (only and '' or '  ' .. describe(session))
    end
  end
  return found
end

-- Whether the menu is Neovim's own, which prints all of its lines before it asks.
local function is_plain_menu()
  return debug.getinfo(vim.ui.select, 'S').source:find('vim/ui.lua', 1, true) ~= nil
end

-- Chooses one of the sessions: done(id).
function M.menu(sessions, done, from)
  from = from or 1
  local to = #sessions
  if is_plain_menu() then
    to = math.min(to, from - 1 + math.max(5, vim.o.lines - 6))
  end
  local items = vim.list_slice(sessions, from, to)
  if to < #sessions then
    items[#items + 1] = { older = #sessions - to }
  end
  local short = shortener(sessions)
  local function line(item)
    if item.older then
      return ('%d older ... (or: SessiondSwitch and words that it should have)'):format(item.older)
    end
    return describe(item) .. ' · ' .. short(item)
  end
  vim.ui.select(items, { prompt = 'Session:', kind = 'sessiond', format_item = line }, function(item)
    if item and item.older then
      M.menu(sessions, done, to + 1)
    elseif item then
      done(item.sessionId)
    end
  end)
end

-- The session named by the words after :SessiondSwitch: done(id).
function M.resolve(typed, done)
  local words = vim.split(typed, '%s+', { trimempty = true })
  all(function(sessions)
    local ids = {}
    local short = shortener(sessions)
    for _, session in ipairs(sessions) do
      ids[short(session)] = session.sessionId
    end
    for _, session in ipairs(sessions) do
      ids[session.sessionId] = session.sessionId
    end
    -- A completed description begins with the id; after words to search by, the id comes last.
    for _, word in ipairs({ words[1], words[#words] }) do
      if ids[word] then
        return done(ids[word])
      end
    end
    local lower = words_of(typed)
    local found = vim.tbl_filter(function(session)
      return has(searched(session), lower)
    end, sessions)
    if #found > 1 then
      M.menu(found, done)
    else
      -- It may be archived.
      done(found[1] and found[1].sessionId or words[1])
    end
  end)
end

-- A menu of all sessions.
function M.choose(done)
  all(function(sessions)
    if #sessions == 0 then
      say.info('there are no sessions yet; :SessiondNew makes one')
    else
      M.menu(sessions, done)
    end
  end)
end

return M
