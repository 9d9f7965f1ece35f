-- Searching all sessions: the hits in the quickfix list, each leading to its message.
local client = require('sessiond.client')
local room = require('sessiond.room')
local say = require('sessiond.say')

local M = {}

local MOST_HITS = 500
-- Longer than any search takes. If the daemon gives up a search, vim.lsp.rpc does not report it.
local TIMEOUT_MS = 15000

local function item(hit)
  local who = hit.role and ('[%s] '):format(hit.role) or ''
  return {
    filename = room.buffer_name(hit.sessionId) .. (hit.messageId and '@' .. hit.seq or ''),
    module = ((hit.name or hit.sessionId):gsub('%c', ' ')),
    lnum = 1,
    text = who .. hit.snippet:gsub('%c+', ' '),
  }
end

local function show(query, found)
  local part = #found.hits < found.total and (' (%d of %d)'):format(#found.hits, found.total) or ''
  vim.fn.setqflist({}, ' ', { title = ('sessiond: %s%s'):format(query, part), items = vim.tbl_map(item, found.hits) })
  vim.cmd('botright copen')
end

function M.search(query, regex)
  local params = { query = query, mode = regex and 'regex' or 'text', limit = MOST_HITS }
  client.request('session/search', params, function(failure, found)
    if failure then
      say.error('the search failed', failure)
    elseif #found.hits == 0 then
      say.info('nothing found for ' .. query)
    else
      show(query, found)
    end
  end, TIMEOUT_MS)
end

return M
