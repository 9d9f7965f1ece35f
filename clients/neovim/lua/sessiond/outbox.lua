-- Our messages: each waits in its room's outbox until it is durable.
--
-- An entry is {text, message}. The message has our own id, so that it may be sent again after a lost answer: the daemon takes it once.
-- What cannot be sent goes back into the draft. It may be durable after all, so it keeps its id until that is seen in the session, and then
-- leaves the draft, or until something else is sent. It is a message of its own, also together with other text.
local client = require('sessiond.client')
local draft = require('sessiond.draft')
local room = require('sessiond.room')
local say = require('sessiond.say')
local transcript = require('sessiond.transcript')
local view = require('sessiond.view')

local M = {}

local made = 0

-- By session: {{text, id}, ...}, what came back, in the order in which it stands at the beginning of the draft. It outlives its room, as the
-- draft does.
local returned = {}

local function new_id()
  made = made + 1
  local random = (vim.uv or vim.loop).hrtime() % 0x100000000
  return ('neovim-%d-%d-%x-%d'):format(os.time(), vim.fn.getpid(), random, made)
end

-- The messages of a draft: {{text, id, line, rows}, ...}, the last one without an id if it did not come back.
local function parts_of(to, text)
  local lines = vim.split(text, '\n', { plain = true })
  local parts, line = {}, 0
  for _, one in ipairs(returned[to.id] or {}) do
    local back = vim.split(one.text, '\n', { plain = true })
    local stop = line + #back
    if vim.deep_equal(vim.list_slice(lines, line + 1, stop), back) and (lines[stop + 1] or '') == '' then
      parts[#parts + 1] = { text = one.text, id = one.id, line = line, rows = #back }
      line = stop + 1
    end
  end
  local rest = table.concat(lines, '\n', math.min(line, #lines) + 1)
  if vim.trim(rest) ~= '' then
    parts[#parts + 1] = { text = rest }
  end
  return parts
end

local function put_back(to, entries)
  local all, texts = {}, {}
  for number, entry in ipairs(entries) do
    all[number], texts[number] = { text = entry.text, id = entry.message.id }, entry.text
  end
  returned[to.id] = vim.list_extend(all, returned[to.id] or {})
  draft.put_back(to, texts)
end

-- These messages are in the session: what came back of them needs not be sent.
function M.arrived(to, messages)
  if #(returned[to.id] or {}) == 0 then
    return
  end
  local seen = {}
  for _, message in ipairs(messages) do
    seen[message.id] = true
  end
  local parts = parts_of(to, draft.text(to))
  for number = #parts, 1, -1 do
    if seen[parts[number].id or ''] then
      draft.take_out(to, parts[number].line, parts[number].rows)
    end
  end
  returned[to.id] = vim.tbl_filter(function(one)
    return not seen[one.id]
  end, returned[to.id])
end

local function take_out(to, entry)
  for place, one in ipairs(to.outbox) do
    if one == entry then
      return table.remove(to.outbox, place)
    end
  end
end

local function sent(to, entry, failure, answer)
  local left = not room.is_here(to)
  if (failure and failure.kind == 'disconnected' and not left) or not take_out(to, entry) then
    return
  end
  if failure then
    say.error('not sent', failure)
    put_back(to, { entry })
  elseif not left then
    local message = vim.tbl_extend('force', entry.message, {
      seq = answer.messages[1].seq,
      timestamp = os.date('%Y-%m-%d %H:%M'),
    })
    view.paint(to.buf, to.t, transcript.put(to.t, message))
    to.said = entry.text
    draft.touch(to)
  end
  room.refresh()
end

local function send(to, entry)
  client.request('session/append', { sessionId = to.id, messages = { entry.message } }, function(failure, answer)
    sent(to, entry, failure, answer)
  end)
end

-- Connects now rather than when the next attempt is due.
local function wake(to)
  client.request('daemon/hello', {}, function(failure)
    if failure and failure.kind == 'noProgram' then
      say.error('not sent', failure)
      M.take_back(to)
    end
  end)
end

local function say_all(to, parts)
  local entries = {}
  for number, part in ipairs(parts) do
    entries[number] = { text = part.text, message = { id = part.id or new_id(), role = 'user', content = part.text } }
  end
  vim.list_extend(to.outbox, entries)
  if to.state == 'gone' then
    room.open_again(to)
  elseif to.state == 'lost' then
    say.warn('the message will be sent when the daemon is back')
    wake(to)
  else
    for _, entry in ipairs(entries) do
      send(to, entry)
    end
  end
  room.refresh()
end

function M.say(to, text)
  say_all(to, { { text = text } })
end

-- Says the whole draft.
function M.say_draft(to, text)
  local parts = parts_of(to, text)
  returned[to.id] = nil
  say_all(to, parts)
end

-- Sends everything that waits, once the room is open again.
function M.send_all(to)
  for _, entry in ipairs(vim.list_slice(to.outbox)) do
    send(to, entry)
  end
end

-- Puts what could not be sent back into the draft.
function M.take_back(to)
  local entries = to.outbox
  to.outbox = {}
  if #entries > 0 then
    put_back(to, entries)
  end
end

-- Before Neovim exits, puts what waits for a lost connection back into the drafts.
function M.take_back_unsent()
  for _, one in ipairs(room.all()) do
    if one.state == 'lost' then
      M.take_back(one)
    end
  end
end

return M
