-- What the commands do, and statusline().
local client = require('sessiond.client')
local draft = require('sessiond.draft')
local outbox = require('sessiond.outbox')
local pick = require('sessiond.pick')
local room = require('sessiond.room')
local say = require('sessiond.say')
local view = require('sessiond.view')

local M = {}

-- Optional. command: the program and its arguments (a list or words); initialization_options: sent with `initialize`.
function M.setup(options)
  client.config = vim.tbl_extend('force', client.config, options or {})
end

-- `[name:count]` of the session in a buffer (default: the current one), '' in other buffers.
function M.statusline(buf)
  return room.statusline(buf or vim.api.nvim_get_current_buf())
end

-- The room to act on, or nil after an error message.
local function here()
  local current = room.current()
  if not current then
    say.error('no session', { message = 'none is open', hint = ':SessiondNew or :SessiondSwitch' })
  end
  return current
end

-- Shows a session in the window where the command was given, if that still exists; for a draft in that of its conversation.
local function entering(mods)
  local win = vim.api.nvim_get_current_win()
  return function(id)
    if vim.api.nvim_win_is_valid(win) then
      vim.api.nvim_set_current_win(win)
    end
    local left = room.of(vim.api.nvim_get_current_buf())
    if mods == '' and left and left.draft == vim.api.nvim_get_current_buf() then
      vim.fn.win_gotoid(vim.fn.bufwinid(left.buf))
    end
    room.enter(mods, id)
    if left then
      draft.hide_alone(left)
    end
  end
end

function M.new(mods, name)
  local enter = entering(mods)
  client.request('session/new', { name = name ~= '' and name or nil, cwd = vim.fn.getcwd() }, function(failure, made)
    if not room.failed('no new session', failure) then
      enter(made.session.sessionId)
    end
  end)
end

function M.switch(mods, typed)
  if vim.trim(typed) == '' then
    pick.choose(entering(mods))
  else
    pick.resolve(typed, entering(mods))
  end
end

function M.search(query, regex)
  require('sessiond.search').search(query, regex)
end

function M.name(name)
  local current = here()
  if current then
    room.update(current, { name = name }, function() end)
  end
end

function M.tag(words)
  local current = here()
  if current then
    local tags = require('sessiond.tags').changed(current.t.info.tags or {}, words)
    room.update(current, { tags = tags }, function(session)
      say.info('tags: ' .. table.concat(session.tags, ' '))
    end)
  end
end

function M.archive(archived)
  local current = here()
  if current then
    room.update(current, { archived = archived }, function()
      say.info(current.id .. (archived and ' is archived' or ' is no longer archived'))
    end)
  end
end

function M.answer(words)
  local current = room.current()
  require('sessiond.answer').answer(current and current.id, words)
end

-- A message of the text, of the lines {first, last}, of both, or of the draft.
function M.say(text, range)
  local current = here()
  if not current then
    return
  end
  if text == '' and not range then
    return draft.send(current)
  end
  local lines = range and vim.api.nvim_buf_get_lines(0, range[1] - 1, range[2], false) or {}
  if text ~= '' then
    table.insert(lines, 1, text)
  end
  outbox.say(current, table.concat(lines, '\n'))
end

function M.save()
  local current = here()
  if not current then
    return
  end
  client.request('session/save', { sessionId = current.id }, function(failure, answer)
    if not room.failed('not saved', failure) then
      local saved = answer.saved[1]
      say.info(saved and ('%s (%d bytes)'):format(saved.path, saved.bytes) or 'nothing to save')
    end
  end)
end

-- Closes conversation and draft; without `force` only when the daemon has the draft.
function M.close(force)
  local current = here()
  if not current then
    return
  end
  if not force and not draft.kept(current) then
    say.error('not closed', { message = 'the daemon could not keep what you typed', hint = ':SessiondClose! discards it' })
    return
  end
  local typing = current.draft
  vim.cmd('bdelete! ' .. current.buf)
  if typing and vim.api.nvim_buf_is_valid(typing) then
    vim.cmd('bwipeout! ' .. typing)
  end
end

-- A copy; with `here_only` only up to the message under the cursor.
function M.fork(mods, name, here_only)
  local current = here()
  if not current then
    return
  end
  local params = { sessionId = current.id, name = name ~= '' and name or nil }
  if here_only and vim.api.nvim_get_current_buf() == current.buf then
    local message = current.t.messages[view.message_at(current.buf, current.t, vim.fn.line('.'))]
    params.atSeq = message and message.seq or 0
  end
  local enter = entering(mods)
  client.request('session/fork', params, function(failure, forked)
    if not room.failed('not forked', failure) then
      enter(forked.session.sessionId)
    end
  end)
end

function M.resume(mods, tool, yank_only)
  local current = here()
  if current then
    require('sessiond.resume').resume(mods, current.id, tool, yank_only)
  end
end

function M.older(all)
  local current = here()
  if current then
    room.older(current, all)
  end
end

function M.draft()
  local current = here()
  if current then
    draft.open(current)
  end
end

-- The cursor goes to the next (1) or previous (-1) message.
function M.jump(direction)
  vim.fn.search('^' .. view.MARK, direction > 0 and 'W' or 'bW')
end

return M
