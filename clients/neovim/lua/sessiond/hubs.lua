-- Whether shared stores are shared now.
--
-- The hub of a shared store is where several machines meet. The daemon says in `daemon/status` whether it can be reached and
-- how many changes wait here, and in `store/hubChanged` when that changes. It is asked once on each connection, and only when
-- a session of another store than the default one is open: that one is never shared.
local client = require('sessiond.client')
local when = require('sessiond.when')

local M = {}

local known = {}
local told = {}
local asked = false

local function store_of(id)
  return id:match('^([^/]+)/')
end

-- A session is open.
function M.need(id)
  if asked or not store_of(id) then
    return
  end
  asked = true
  client.request('daemon/status', {}, function(failure, status)
    if failure then
      asked = false
      return
    end
    for _, store in ipairs(status.stores) do
      -- What was told meanwhile is newer.
      if store.hub and not told[store.name] then
        known[store.name] = store.hub
      end
    end
    vim.cmd('redrawstatus!')
  end)
end

function M.heard(params)
  told[params.store] = true
  known[params.store] = params.hub
end

-- The connection is gone.
function M.forget()
  known, told, asked = {}, {}, false
end

local function since(stamp)
  local shown = when.local_time(stamp):gsub('^' .. vim.pesc(os.date('%Y-%m-%d ')), '')
  return shown == '' and 'offline' or 'offline since ' .. shown
end

-- `shared`, `3 waiting` or `offline since 14:30, 3 waiting` with a blank in front; '' for a session that is not shared.
function M.words(id)
  local hub = known[store_of(id) or '']
  if not hub then
    return ''
  end
  local words = hub.state == 'offline' and { since(hub.since) } or {}
  if (hub.pending or 0) > 0 then
    table.insert(words, hub.pending .. ' waiting')
  end
  return ' ' .. (#words == 0 and 'shared' or table.concat(words, ', '))
end

return M
