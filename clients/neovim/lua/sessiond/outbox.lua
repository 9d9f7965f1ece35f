-- Our messages: each waits in its room's outbox until it is durable.
--
-- An entry is {text, message}. The message has our own id, so that it may be sent again after a lost answer: the daemon takes it once.
-- What cannot be sent goes back into the draft.
local client = require('sessiond.client')
local draft = require('sessiond.draft')
local room = require('sessiond.room')
local say = require('sessiond.say')
local transcript = require('sessiond.transcript')
local view = require('sessiond.view')

local M = {}

local made = 0

-- A message with an unknown outcome keeps its id when it is sent again.
local function id_for(to, text)
  if to.unsure and to.unsure.text == text then
    return to.unsure.id
  end
  made = made + 1
  local random = (vim.uv or vim.loop).hrtime() % 0x100000000
  return ('neovim-%d-%d-%x-%d'):format(os.time(), vim.fn.getpid(), random, made)
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
    to.unsure = failure.kind == 'indeterminate' and { text = entry.text, id = entry.message.id } or nil
    draft.put_back(to, { entry.text })
  elseif not left then
    local message = vim.tbl_extend('force', entry.message, {
      seq = answer.messages[1].seq,
      timestamp = os.date('%Y-%m-%d %H:%M'),
    })
    view.paint(to.buf, to.t, transcript.put(to.t, message))
    to.unsure, to.said = nil, entry.text
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

function M.say(to, text)
  local entry = { text = text, message = { id = id_for(to, text), role = 'user', content = text } }
  table.insert(to.outbox, entry)
  if to.state == 'gone' then
    room.open_again(to)
  elseif to.state == 'lost' then
    say.warn('the message will be sent when the daemon is back')
    wake(to)
  else
    send(to, entry)
  end
  room.refresh()
end

-- Sends everything that waits, once the room is open again.
function M.send_all(to)
  for _, entry in ipairs(vim.list_slice(to.outbox)) do
    send(to, entry)
  end
end

-- Puts what could not be sent back into the draft.
function M.take_back(to)
  local texts = {}
  for number, entry in ipairs(to.outbox) do
    texts[number] = entry.text
  end
  to.outbox = {}
  if #texts > 0 then
    draft.put_back(to, texts)
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
