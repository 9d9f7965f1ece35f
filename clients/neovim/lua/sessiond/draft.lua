-- What is being typed for a session: a separate buffer below the conversation, sessiond-draft://ID.
--
-- The daemon keeps its text, in the session's state under KEY, at most once a second, so that it survives Neovim. While a message is on its
-- way nothing is stored: the typed text remains there until it is durable as a message. `modified` says that the daemon does not have it.
-- All Neovims have one draft in a session: what another one keeps there stays, before ours.
local client = require('sessiond.client')
local room = require('sessiond.room')
local say = require('sessiond.say')

local M = {}

local KEY = 'draft:neovim'
local EVERY_MS = 1000
local KEEP_MS = 1000
local HEIGHT = 5

local function now_ms()
  return (vim.uv or vim.loop).hrtime() / 1e6
end

local function buffer_name(id)
  return 'sessiond-draft://' .. id
end

local function loaded(of)
  return of.draft ~= nil and vim.api.nvim_buf_is_loaded(of.draft)
end

function M.text(of)
  return loaded(of) and table.concat(vim.api.nvim_buf_get_lines(of.draft, 0, -1, false), '\n') or of.typed
end

-- The part of a text that is worth keeping.
local function worth(text)
  return vim.trim(text) == '' and '' or text
end

local function typed(of)
  return worth(M.text(of))
end

local function fill(buf, text)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(text, '\n', { plain = true }))
end

local function settle(of)
  if loaded(of) and typed(of) == of.kept then
    vim.bo[of.draft].modified = false
  end
end

local function wire(of, text)
  local texts = vim.tbl_filter(function(one)
    return one ~= ''
  end, { of.others, text })
  return { sessionId = of.id, values = { [KEY] = #texts == 0 and vim.NIL or table.concat(texts, '\n\n') } }
end

local function store(of, text)
  if of.timer then
    of.timer:stop()
    of.timer = nil
  end
  of.stored_at = now_ms()
  if of.state ~= 'open' or text == of.kept then
    return
  end
  of.sent = text
  client.request('state/set', wire(of, text), function(failure)
    if not failure then
      of.kept, of.complained = text, false
      if room.is_here(of) then
        M.touch(of)
      end
    elseif failure.kind == 'sessionNotFound' then
      -- Deleted while this was on its way. The notification reports that, and the text remains in its buffer.
      return
    elseif failure.kind ~= 'disconnected' and not of.complained then
      of.complained = true
      say.error('the draft could not be saved', failure)
    end
  end)
end

-- What this adds to a room: {draft: buffer or nil, typed: its text when it was last read, kept: our text that the daemon has, sent: the one
-- that it was sent last, others: what other Neovims keep in the same draft, said: the last text that became a message, opened: whether the
-- session was ever open, restored: whether the text of an earlier Neovim is here already, stored_at, timer, complained: the user was told that the daemon refuses it}.
function M.join(to)
  local name = buffer_name(to.id)
  if vim.fn.bufexists(name) == 1 then
    to.draft = vim.fn.bufadd(name)
  end
  to.typed, to.kept, to.sent, to.others, to.said, to.stored_at = '', '', '', '', '', -EVERY_MS
  to.restored = M.text(to) ~= ''
end

-- The state was changed, maybe by another Neovim: our draft is a part of the one in it, or gone.
local function heard(of, state)
  local stored = state[KEY]
  local draft = '\n\n' .. (type(stored) == 'string' and stored or '') .. '\n\n'
  for _, ours in ipairs({ of.sent, of.kept }) do
    local at = ours ~= '' and draft:find('\n\n' .. ours .. '\n\n', 1, true)
    if at then
      draft = draft:sub(1, at - 1) .. draft:sub(at + 2 + #ours)
      break
    end
  end
  of.others = vim.fn.trim(draft, '\n')
end

function M.changed(of, values)
  if values[KEY] ~= nil then
    heard(of, values)
  end
end

-- The session was opened. The first time an earlier draft comes back, before what has been typed since, unless it was sent from here; later
-- the text here is the newer one. What an earlier Neovim may have sent is shown: the same may have been typed again, and twice is better
-- than lost.
function M.opened(of, state)
  if of.opened then
    heard(of, state)
    return M.touch(of)
  end
  of.opened = true
  local stored = state[KEY]
  of.kept = type(stored) == 'string' and stored or ''
  local known = of.kept == '' or of.kept == of.said or of.kept == M.text(of)
  for _, entry in ipairs(of.outbox) do
    known = known or of.kept == entry.text
  end
  if not of.restored and not known then
    M.put_back(of, { of.kept })
  else
    M.touch(of)
  end
end

-- Shows the draft below its conversation, if that is shown, and remains in the current window.
local function show(of)
  if not loaded(of) then
    of.draft = vim.fn.bufadd(buffer_name(of.id))
    vim.fn.bufload(of.draft)
  end
  local above = vim.fn.bufwinid(of.buf)
  if vim.fn.bufwinid(of.draft) >= 0 or above < 0 then
    return
  end
  local ok = pcall(vim.api.nvim_win_call, above, function()
    vim.cmd('belowright split')
    vim.cmd('resize ' .. HEIGHT)
    vim.cmd('hide buffer ' .. of.draft)
    vim.cmd('setlocal winfixheight nonumber norelativenumber')
  end)
  if not ok then
    say.warn('the window is too small to show the draft; use :SessiondDraft')
  end
end

-- Closes its window if its conversation is no longer shown: below another one it would be taken for that one's draft.
function M.hide_alone(of)
  local win = of.draft and vim.fn.bufwinid(of.draft) or -1
  if win > 0 and vim.fn.bufwinid(of.buf) < 0 then
    vim.api.nvim_win_hide(win)
  end
end

-- Opens the window for typing, at the end of the present text.
function M.open(of)
  show(of)
  local win = vim.fn.bufwinid(of.draft)
  if win >= 0 then
    vim.api.nvim_set_current_win(win)
  else
    vim.cmd('sbuffer ' .. of.draft)
  end
  vim.fn.cursor({ vim.fn.line('$'), vim.fn.col({ vim.fn.line('$'), '$' }) })
end

-- Puts unsent texts before what has been typed since.
function M.put_back(of, texts)
  show(of)
  local text = table.concat(texts, '\n\n')
  if typed(of) == '' then
    fill(of.draft, text)
  else
    -- Inserted, so that the cursor stays in what is being typed.
    vim.api.nvim_buf_set_lines(of.draft, 0, 0, false, vim.split(text .. '\n', '\n', { plain = true }))
  end
  M.touch(of)
end

-- Takes lines out, and the empty one after them.
function M.take_out(of, line, rows)
  if loaded(of) then
    vim.api.nvim_buf_set_lines(of.draft, line, line + rows + 1, false, {})
  else
    local lines = vim.split(of.typed, '\n', { plain = true })
    for _ = 1, math.min(rows + 1, #lines - line) do
      table.remove(lines, line + 1)
    end
    of.typed = table.concat(lines, '\n')
  end
  M.touch(of)
end

-- Sends what was typed.
function M.send(of)
  local text = typed(of)
  if text == '' then
    say.warn('there is nothing to send')
    return
  end
  fill(of.draft, '')
  require('sessiond.outbox').say_draft(of, text)
end

-- Something was typed or sent: the daemon gets it now, or a second after the last time.
function M.touch(of)
  of.typed = M.text(of)
  if #of.outbox > 0 then
    return
  end
  if of.timer or typed(of) == of.kept then
    return settle(of)
  end
  local wait = of.stored_at + EVERY_MS - now_ms()
  if wait <= 0 then
    return store(of, typed(of))
  end
  of.timer = vim.defer_fn(function()
    of.timer = nil
    store(of, typed(of))
  end, math.ceil(wait))
end

-- Sends the text without waiting until the second is over. Does not read the buffer: on a deadly signal Neovim removes its text first.
function M.flush(of)
  if #of.outbox == 0 and worth(of.typed) ~= of.kept then
    store(of, worth(of.typed))
  end
end

-- Waits a moment until the daemon has the text. Returns whether it has.
function M.kept(of)
  of.typed = M.text(of)
  local text = worth(of.typed)
  of.sent = text
  if text ~= of.kept and of.state == 'open' and client.eval('state/set', wire(of, text), KEEP_MS) then
    of.kept = text
  end
  settle(of)
  return text == of.kept
end

-- BufReadCmd for sessiond-draft://ID.
function M.read(name, buf)
  vim.api.nvim_buf_set_var(buf, 'sessiond_id', name:match('^sessiond%-draft://(.*)'))
  for option, value in pairs({ buftype = 'acwrite', bufhidden = 'hide', swapfile = false, buflisted = false }) do
    vim.bo[buf][option] = value
  end
  vim.bo[buf].filetype = 'sessiond-draft'
  local of = room.of(buf)
  if of then
    of.draft = buf
    fill(buf, of.typed)
    settle(of)
  end
  local group = vim.api.nvim_create_augroup('sessiond_draft_' .. buf, {})
  local function on(event, callback)
    vim.api.nvim_create_autocmd(event, {
      group = group,
      buffer = buf,
      callback = function()
        callback(room.of(buf))
      end,
    })
  end
  on({ 'TextChanged', 'TextChangedI', 'TextChangedP', 'InsertLeave' }, function(here)
    if here then
      M.touch(here)
    end
  end)
  on('BufUnload', function(here)
    if here then
      M.flush(here)
    end
  end)
  on('BufWriteCmd', function(here)
    if not here or not M.kept(here) then
      say.warn('the draft cannot be saved now: the daemon is not connected')
    end
  end)
end

-- Before Neovim exits. It asks only about what could not be sent, not about a draft that the daemon has.
vim.api.nvim_create_autocmd('ExitPre', {
  group = vim.api.nvim_create_augroup('sessiond_quit', {}),
  callback = function()
    require('sessiond.outbox').take_back_unsent()
    for _, buf in ipairs(vim.fn.getbufinfo({ bufmodified = 1 })) do
      local of = room.of(buf.bufnr)
      if of and of.draft == buf.bufnr then
        M.kept(of)
      end
    end
  end,
})

return M
