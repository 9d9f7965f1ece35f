-- What the tests share: waiting, and a second client on a connection of its own.
local rpc = require('sessiond.rpc')

local M = {}

local DEADLINE_MS = 15000
local others = {}

local function lines(buf)
  return vim.api.nvim_buf_get_lines(buf or 0, 0, -1, false)
end

function M.messages()
  return vim.fn.execute('messages')
end

-- Lets Neovim serve its channels till the condition holds.
function M.wait(what, holds)
  if not vim.wait(DEADLINE_MS, holds, 5) then
    local shown = vim.list_slice(lines(), math.max(1, vim.api.nvim_buf_line_count(0) - 20))
    error(('not within %d ms: %s; buffer: %s; messages: %s'):format(DEADLINE_MS, what, vim.inspect(shown), M.messages()), 2)
  end
end

function M.equal(expected, found, what)
  if not vim.deep_equal(expected, found) then
    error(('%sexpected %s, found %s'):format(what and what .. ': ' or '', vim.inspect(expected), vim.inspect(found)), 2)
  end
end

function M.matches(pattern, text)
  if not tostring(text):match(pattern) then
    error(('%q does not match %q'):format(tostring(text), pattern), 2)
  end
end

-- The text of a buffer (default: the current one) without heads, first line and empty lines.
function M.texts(buf)
  return vim.tbl_filter(function(line)
    return line ~= '' and not vim.startswith(line, '▌')
  end, vim.list_slice(lines(buf), 2))
end

function M.heads(buf)
  return vim.tbl_filter(function(line)
    return vim.startswith(line, '▌')
  end, vim.list_slice(lines(buf), 2))
end

function M.wait_for_texts(expected, buf)
  M.wait(vim.inspect(expected) .. ' shown', function()
    return vim.deep_equal(M.texts(buf), expected)
  end)
end

function M.wait_for_message(text)
  M.wait('a message ' .. text, function()
    return M.messages():find(text, 1, true)
  end)
end

function M.statusline(buf)
  return require('sessiond').statusline(buf)
end

function M.wait_for_statusline(expected)
  M.wait('the status line ' .. expected, function()
    return M.statusline() == expected
  end)
end

-- A new session in the current window; its id.
function M.new(name)
  vim.cmd('SessiondNew ' .. name)
  M.wait_for_statusline(('[%s:0]'):format(name))
  return vim.b.sessiond_id
end

-- The lines of a draft.
function M.draft(id)
  local buf = vim.fn.bufadd('sessiond-draft://' .. id)
  return vim.api.nvim_buf_get_lines(buf, 0, -1, false)
end

-- Another client. `heard` collects its notifications.
function M.other()
  local heard = {}
  local conn = rpc.connect({ 'sessiond' }, function(method, params)
    heard[#heard + 1] = { method, params }
  end, function() end)
  conn.heard = heard
  others[#others + 1] = conn
  return conn
end

function M.close_all()
  for _, conn in ipairs(others) do
    conn:close()
  end
  others = {}
end

-- The result of a request of the other client; fails where it fails.
function M.ask(other, method, params)
  local failure, result = other:eval(method, params, DEADLINE_MS)
  if not result then
    error(method .. ': ' .. vim.inspect(failure), 2)
  end
  return result
end

function M.append(other, id, messages)
  return M.ask(other, 'session/append', { sessionId = id, messages = messages })
end

-- kill -9 the daemon, as a crash would.
function M.kill_daemon(other)
  (vim.uv or vim.loop).kill(M.ask(other, 'daemon/hello', {}).pid, 'sigkill')
end

-- n messages `message FROM`...
function M.many(from, to)
  local messages = {}
  for n = from, to do
    messages[#messages + 1] = { role = 'user', content = 'message ' .. n }
  end
  return messages
end

return M
