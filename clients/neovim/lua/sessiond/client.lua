-- Neovim's one connection to the daemon: started when first needed, and again after every loss while sessions are open.
local rpc = require('sessiond.rpc')
local say = require('sessiond.say')

local M = {}

local PROTOCOL = 1
local FIRST_DELAY_MS = 200
local LAST_DELAY_MS = 10000
local UNREACHABLE = 69

-- command: the relay, a list or words, by default vim.g.sessiond_command; initialization_options: for `initialize`.
M.config = { command = nil, initialization_options = nil }

-- Callbacks: notified(method, params), up(), down(for_good), wanted() -> boolean.
local listener = {}

local conn = nil
local up = false -- the daemon has answered on this connection
local refused = false -- the daemon refuses us: retrying is useless
local failures = 0 -- failures since the last answer
local by_itself = false -- this connection was not requested by a command
local leaving = false

function M.listen(to)
  listener = to
end

-- Whether a relay is running or just ending.
function M.connected()
  return conn ~= nil
end

-- Whether the daemon has answered on the connection that there is.
function M.ready()
  return up
end

-- Ends the connection as a crash would.
function M.abandon()
  if conn then
    conn:close()
  end
end

function M.command()
  local words = M.config.command or vim.g.sessiond_command or 'sessiond'
  return type(words) == 'table' and words or vim.split(words, ' ', { trimempty = true })
end

local start

local function again()
  if conn or leaving or not listener.wanted() then
    return
  end
  if start() then
    failures = failures + 1
    M.later()
  else
    by_itself = true
  end
end

function M.later()
  vim.defer_fn(again, math.min(FIRST_DELAY_MS * 2 ^ math.min(failures - 1, 10), LAST_DELAY_MS))
end

local function refuse(failure)
  say.error('the daemon cannot be used', failure)
  refused = true
  conn:close()
end

local function initialized(failure, result)
  if failure and failure.kind == 'disconnected' then
    return
  elseif failure then
    return refuse(failure)
  end
  local ours = vim.tbl_get(result or {}, 'capabilities', 'experimental', 'sessiond') or {}
  local spoken = ours.protocolVersion or 0
  if spoken ~= PROTOCOL then
    return refuse({
      message = ('it speaks protocol %s, this plugin needs %d'):format(spoken, PROTOCOL),
      hint = 'update sessiond, then run `sessiond stop`',
    })
  end
  if by_itself then
    say.info('reconnected')
  end
  up = true
  failures = 0
  conn.limit = (ours.limits or {}).messageBytes
  conn:notify('initialized', {})
  listener.up()
end

local function closed(code)
  local was_up = up
  conn, up = nil, false
  if leaving then
    return
  end
  if was_up then
    say.warn('the connection to the daemon was lost')
  elseif not refused and not by_itself then
    local why = code == UNREACHABLE and 'no daemon could be reached or started' or ('the relay ended with code %d'):format(code)
    say.error('no connection', { message = why, hint = 'run `sessiond doctor`' })
  end
  failures = failures + 1
  listener.down(refused)
  if not refused and listener.wanted() then
    M.later()
  end
end

-- nil, or the reason for the refusal.
function start()
  if conn then
    return nil
  end
  local words = M.command()
  if #words == 0 or vim.fn.executable(words[1]) == 0 then
    return {
      kind = 'noProgram',
      message = ("program '%s' not found"):format(words[1] or ''),
      hint = "install sessiond, or require('sessiond').setup({ command = ... })",
    }
  end
  -- It listens to the connection. Completion in a fresh editor connects before any command has loaded it.
  require('sessiond.room')
  refused, by_itself = false, false
  conn = rpc.connect(words, function(...)
    listener.notified(...)
  end, closed)
  local version = vim.version()
  conn:request('initialize', {
    processId = vim.fn.getpid(),
    clientInfo = { name = 'neovim', version = ('%d.%d.%d'):format(version.major, version.minor, version.patch) },
    rootUri = vim.NIL,
    capabilities = vim.empty_dict(),
    initializationOptions = M.config.initialization_options or vim.empty_dict(),
  }, initialized)
end

-- done(failure, result), see rpc.lua. Starts the connection if necessary.
function M.request(method, params, done, timeout_ms)
  local problem = start()
  if problem then
    done(problem)
  else
    conn:request(method, params, done, timeout_ms)
  end
end

-- The result, or nil if it did not come within timeout_ms.
function M.eval(method, params, timeout_ms)
  if start() then
    return nil
  end
  local _, result = conn:eval(method, params, timeout_ms)
  return result
end

-- Before Neovim ends: when this returns, everything sent has reached the daemon, or timeout_ms are over.
function M.leave(timeout_ms)
  leaving = true
  if up then
    conn:eval('daemon/hello', {}, timeout_ms)
  end
end

return M
