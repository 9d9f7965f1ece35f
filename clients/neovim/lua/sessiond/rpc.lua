-- One connection to the daemon: a relay (`sessiond` between pipes), used through vim.lsp.rpc.
--
-- Every request is answered exactly once: by the daemon, or with LOST when the connection ends.
local M = {}

M.LOST = { kind = 'disconnected', message = 'the connection to the daemon was lost' }

local Connection = {}
Connection.__index = Connection

local function start(command, dispatchers)
  if vim.fn.has('nvim-0.11') == 1 then
    return vim.lsp.rpc.start(command, dispatchers)
  end
  return vim.lsp.rpc.start(command[1], vim.list_slice(command, 2), dispatchers)
end

-- `limit`, once set: how many bytes of JSON the daemon takes as one message.
--
-- Starts a relay. notified(method, params) gets the daemon's notifications, closed(exit_code) is called once, at the end.
function M.connect(command, notified, closed)
  local self = setmetatable({ pending = {}, last = 0, open = true, closed = closed }, Connection)
  local ok, rpc = pcall(start, command, {
    notification = function(method, params)
      notified(method, type(params) == 'table' and params or {})
    end,
    server_request = function()
      return nil, vim.lsp.rpc.rpc_response_error(vim.lsp.protocol.ErrorCodes.MethodNotFound)
    end,
    on_exit = vim.schedule_wrap(function(code)
      self:ended(code)
    end),
    on_error = function() end,
  })
  if ok and rpc then
    self.rpc = rpc
  else
    vim.schedule(function()
      self:ended(-1)
    end)
  end
  return self
end

local function error_of(wire)
  local failure = {}
  if type(wire.data) == 'table' then
    failure = vim.deepcopy(wire.data)
  end
  failure.message = type(wire.message) == 'string' and wire.message or 'no reason given'
  failure.kind = failure.kind or 'internalError'
  return failure
end

-- An empty Lua table is a list in JSON; params never are.
local function object(params)
  return next(params) == nil and vim.empty_dict() or params
end

-- The failure of a message that the daemon would end the connection for, so that it would be sent again for ever; nil for others.
function Connection:too_large(method, params)
  if not self.limit then
    return nil
  end
  local encoded, text = pcall(vim.json.encode, { jsonrpc = '2.0', id = self.last, method = method, params = params })
  if encoded and #text > self.limit then
    local message = ('this is longer than the %d bytes that the daemon takes at once'):format(self.limit)
    return { kind = 'tooLarge', message = message, limit = self.limit, hint = 'send it in parts' }
  end
end

-- done(failure, result): failure is nil or {kind, message, hint?, ...}. After timeout_ms, if given, with kind `timeout`: vim.lsp.rpc
-- swallows the answer to a request that was cancelled.
function Connection:request(method, params, done, timeout_ms)
  self.last = self.last + 1
  local number = self.last
  local function finish(failure, result)
    if self.pending[number] then
      self.pending[number] = nil
      done(failure, result)
    end
  end
  self.pending[number] = finish
  local too_large = self:too_large(method, params)
  if too_large then
    return finish(too_large)
  end
  local sent = false
  if self.open and self.rpc then
    local ok, accepted = pcall(self.rpc.request, method, object(params), function(wire, result)
      if wire then
        finish(error_of(wire))
      else
        finish(nil, result)
      end
    end)
    sent = ok and accepted
  end
  if not sent then
    finish(M.LOST)
  elseif timeout_ms then
    vim.defer_fn(function()
      finish({ kind = 'timeout', message = ('no answer within %d s'):format(timeout_ms / 1000) })
    end, timeout_ms)
  end
end

function Connection:notify(method, params)
  if self.open and self.rpc then
    pcall(self.rpc.notify, method, object(params))
  end
end

-- Waits up to timeout_ms: failure, result; nothing if no answer came in time.
function Connection:eval(method, params, timeout_ms)
  local answered, failure, result = false, nil, nil
  self:request(method, params, function(...)
    answered, failure, result = true, ...
  end)
  vim.wait(timeout_ms, function()
    return answered
  end, 5)
  return failure, result
end

-- Ends it now.
function Connection:close()
  if self.rpc and self.rpc.terminate then
    pcall(self.rpc.terminate)
  elseif self.rpc and self.rpc.handle and not self.rpc.handle:is_closing() then
    self.rpc.handle:kill(15)
  end
  self:ended(0)
end

function Connection:ended(code)
  if not self.open then
    return
  end
  self.open = false
  for _, finish in pairs(self.pending) do
    finish(M.LOST)
  end
  self.closed(code)
end

return M
