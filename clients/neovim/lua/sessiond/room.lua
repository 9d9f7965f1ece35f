-- The open sessions: each joins a transcript, its buffer, and the connection.
--
-- A room is {id, buf, t, state, early, outbox, ...}. Its state:
--   opening  `session/open` is on its way; notifications wait in `early`
--   open     follows live
--   lost     the connection is gone; opened again, since t.seq, when it is back
--   gone     deleted, or it could not be opened: what is shown remains; opened again when it is asked for
-- `outbox` is outbox.lua's: our messages that are not durable yet.
local client = require('sessiond.client')
local hubs = require('sessiond.hubs')
local say = require('sessiond.say')
local transcript = require('sessiond.transcript')
local view = require('sessiond.view')

local M = {}

local FIRST_PAGE = 200
local PAGE = 1000
local LEAVE_MS = 1000

local rooms = {}
local latest = ''
local open, seek

local function draft()
  return require('sessiond.draft')
end

local function outbox()
  return require('sessiond.outbox')
end

function M.refresh()
  vim.cmd('redrawstatus!')
end

function M.all()
  return vim.tbl_values(rooms)
end

-- Whether the room was not left meanwhile.
function M.is_here(room)
  return rooms[room.id] == room
end

-- Says what failed, if anything did.
function M.failed(doing, failure)
  if failure then
    say.error(doing, failure)
  end
  return failure ~= nil
end

-- Buffers

function M.buffer_name(id)
  return 'sessiond://' .. id
end

-- The room that a buffer belongs to (its conversation or its draft), or nil.
function M.of(buf)
  local ok, id = pcall(vim.api.nvim_buf_get_var, buf, 'sessiond_id')
  return ok and rooms[id] or nil
end

-- The room of the current buffer, otherwise the one used last, otherwise nil.
function M.current()
  return M.of(vim.api.nvim_get_current_buf()) or rooms[latest]
end

-- Shows a session in the current window, at its end or at the message with a seq.
function M.enter(mods, id, seq)
  local buf = vim.fn.bufadd(M.buffer_name(id))
  vim.bo[buf].buflisted = true
  vim.cmd(('%s %sbuffer %d'):format(mods, mods == '' and 'hide ' or 's', buf))
  local room = M.of(buf)
  if room and room.state == 'gone' then
    M.open_again(room)
  end
  if seq and room then
    room.target, room.win = seq, vim.api.nvim_get_current_win()
    seek(room)
  end
end

-- The buffer is deleted: the session is saved and no longer followed.
local function leave(room)
  if not room then
    return
  end
  if room.state == 'open' then
    draft().flush(room)
    client.request('session/save', { sessionId = room.id }, function(failure)
      if failure and failure.kind ~= 'disconnected' then
        say.error(room.id .. ' is not saved', failure)
      end
    end)
  elseif room.state == 'opening' then
    -- After a lost connection nothing was sent yet; what was already sent is taken once.
    outbox().send_all(room)
  else
    outbox().take_back(room)
  end
  if room.state == 'open' or room.state == 'opening' then
    client.request('session/close', { sessionId = room.id }, function() end)
  end
  rooms[room.id] = nil
end

local function set(buf, id)
  vim.api.nvim_buf_set_var(buf, 'sessiond_id', id)
  local options = { buftype = 'nofile', bufhidden = 'hide', swapfile = false, undolevels = -1, modifiable = false }
  for option, value in pairs(options) do
    vim.bo[buf][option] = value
  end
  vim.bo[buf].filetype = 'sessiond'
  local group = vim.api.nvim_create_augroup('sessiond_room_' .. buf, {})
  local function on(event, callback)
    vim.api.nvim_create_autocmd(event, { group = group, buffer = buf, callback = callback })
  end
  on('BufUnload', function()
    leave(M.of(buf))
  end)
  on('BufEnter', function()
    latest = id
  end)
  -- The cursor on the first line requests what is before it.
  on('CursorMoved', function()
    local room = M.of(buf)
    if room and room.t.more and vim.api.nvim_win_get_cursor(0)[1] == 1 then
      M.older(room, false)
    end
  end)
  latest = id
end

-- BufReadCmd for sessiond://ID and sessiond://ID@SEQ.
function M.read(name, buf)
  local id, at = name:match('^sessiond://([%w._%%/-]+)@?(%d*)$')
  if not id then
    say.error('not opened', { message = name .. ' does not name a session' })
    return
  end
  if at ~= '' then
    -- A place in a session, as in the quickfix list: continue to the session once this buffer exists.
    vim.bo[buf].buftype, vim.bo[buf].bufhidden, vim.bo[buf].buflisted = 'nofile', 'unload', false
    local win = vim.api.nvim_get_current_win()
    vim.schedule(function()
      if vim.api.nvim_win_is_valid(win) and vim.api.nvim_win_get_buf(win) == buf then
        vim.api.nvim_set_current_win(win)
        M.enter('', id, tonumber(at))
      end
    end)
    return
  end
  set(buf, id)
  local room = {
    id = id, buf = buf, t = transcript.new(id), state = 'opening', early = {}, outbox = {}, paging = false,
  }
  rooms[id] = room
  draft().join(room)
  open(room, false)
end

-- Opening and following

local function follow(room, change)
  if change.kind == 'appended' then
    outbox().arrived(room, change.messages)
  elseif change.kind == 'state' then
    draft().changed(room, change.values)
  end
  local edits = transcript.apply(room.t, change)
  for _, edit in ipairs(edits) do
    if edit[1] == 'read' then
      return open(room, false)
    elseif edit[1] == 'reset' then
      return view.reset(room.buf, room.t)
    end
  end
  view.paint(room.buf, room.t, edits)
end

local function not_opened(room, failure)
  if failure.kind == 'disconnected' then
    room.state = 'lost'
    return
  end
  room.state = failure.kind == 'noProgram' and 'lost' or 'gone'
  say.error(#room.outbox > 0 and 'not sent' or room.id .. ' cannot be opened', failure)
  outbox().take_back(room)
  M.refresh()
end

local function opened(room, since, failure, result)
  if not M.is_here(room) then
    return
  elseif failure then
    return not_opened(room, failure)
  elseif since and type(result.changes) ~= 'table' then
    return open(room, false)
  end
  room.state = 'open'
  hubs.need(room.id)
  if since then
    for _, change in ipairs(result.changes) do
      follow(room, change)
    end
    transcript.inform(room.t, result.session)
  else
    transcript.load(room.t, result)
    view.reset(room.buf, room.t)
    outbox().arrived(room, result.messages)
  end
  local early = room.early
  room.early = {}
  for _, change in ipairs(early) do
    follow(room, change)
  end
  for _, warning in ipairs(result.warnings) do
    say.warn(('%s:%s: %s'):format(warning.path, warning.line or '', warning.message))
  end
  outbox().send_all(room)
  draft().opened(room, result.state)
  seek(room)
  M.refresh()
end

function open(room, since)
  room.state = 'opening'
  local params = { sessionId = room.id }
  if since then
    params.since = room.t.seq
  else
    params.last = FIRST_PAGE
  end
  client.request('session/open', params, function(failure, result)
    opened(room, since, failure, result)
  end)
end

-- Opens a room that is gone: it may have been restored, or be readable again.
function M.open_again(room)
  open(room, false)
end

local function changed(room, changes)
  for _, change in ipairs(changes) do
    -- Following may begin to open the session again midway.
    if room.state == 'opening' then
      table.insert(room.early, change)
    else
      follow(room, change)
    end
  end
end

local function notified(method, params)
  if method == 'store/hubChanged' then
    hubs.heard(params)
    M.refresh()
    return
  end
  local room = rooms[params.sessionId or (params.session or {}).sessionId or '']
  if not room then
    return
  end
  if method == 'session/changed' then
    changed(room, params.changes)
  elseif method == 'session/reloaded' then
    open(room, false)
  elseif method == 'session/resync' and room.state == 'open' then
    open(room, true)
  elseif method == 'session/deleted' then
    room.state = 'gone'
    if params.movedTo then
      say.warn(('%s was moved by somebody else; `:SessiondSwitch %s` shows it'):format(room.id, params.movedTo))
    else
      say.warn(('%s was deleted by somebody else; `sessiond restore %s` brings it back'):format(room.id, room.id))
    end
  end
  M.refresh()
end

local function up()
  for _, room in pairs(rooms) do
    if room.state == 'lost' then
      open(room, room.t.info.seq ~= nil)
    end
  end
end

local function down(for_good)
  hubs.forget()
  for _, room in pairs(rooms) do
    if room.state ~= 'gone' then
      room.state, room.early = 'lost', {}
    end
    room.paging = false
    if for_good and #room.outbox > 0 then
      say.error('not sent', { message = 'the daemon cannot be used' })
      outbox().take_back(room)
    end
  end
  M.refresh()
end

-- Older messages

-- Loads a page before the first message, or everything.
function M.older(room, all)
  if room.state ~= 'open' or room.paging or not room.t.more then
    return
  end
  room.paging = true
  local first = room.t.messages[1]
  local params = { sessionId = room.id, limit = (all or room.target) and PAGE or FIRST_PAGE }
  if first then
    params.before = first.seq
  end
  client.request('session/read', params, function(failure, page)
    room.paging = false
    if not M.is_here(room) or M.failed('older messages', failure) then
      return
    end
    view.prepended(room.buf, room.t, transcript.prepend(room.t, page))
    if all then
      M.older(room, true)
    end
    seek(room)
  end)
end

-- Goes to the requested message as soon as it is loaded.
function seek(room)
  if not room.target or room.state ~= 'open' then
    return
  end
  local index = transcript.find(room.t, room.target)
  if index == 0 and room.t.more then
    return M.older(room, false)
  end
  room.target = nil
  if vim.api.nvim_win_is_valid(room.win) and vim.api.nvim_win_get_buf(room.win) == room.buf then
    view.show(room.win, view.line_of(room.buf, room.t, math.max(index, 1)))
  end
end

-- Changes what is known about a session, done(info).
function M.update(room, fields, done)
  local params = vim.tbl_extend('force', { sessionId = room.id }, fields)
  client.request('session/update', params, function(failure, answer)
    if M.failed('not changed', failure) or not M.is_here(room) then
      return
    end
    transcript.inform(room.t, answer.session)
    view.paint(room.buf, room.t, { { 'info' } })
    M.refresh()
    done(answer.session)
  end)
end

local STATES = { opening = ' …', open = '', lost = ' offline', gone = ' gone' }

function M.statusline(buf)
  local room = M.of(buf)
  if not room then
    return ''
  end
  local name = room.t.info.name
  local shown = name and name ~= '' and name or room.id:gsub('^session%-', ''):gsub('/session%-', '/')
  local waiting = #room.outbox > 0 and (' %d unsent'):format(#room.outbox) or ''
  local said = ('[%s:%d%s%s]'):format(shown, room.t.count, STATES[room.state], waiting) .. hubs.words(room.id)
  return (said:gsub('%c', ' '))
end

client.listen({
  notified = notified,
  up = up,
  down = down,
  wanted = function()
    return next(rooms) ~= nil
  end,
})

vim.api.nvim_create_autocmd('VimLeavePre', {
  group = vim.api.nvim_create_augroup('sessiond_leave', {}),
  callback = function()
    for _, id in ipairs(vim.tbl_keys(rooms)) do
      leave(rooms[id])
    end
    client.leave(LEAVE_MS)
  end,
})

return M
