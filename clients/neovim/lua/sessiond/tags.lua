-- `a +b -c`: what :SessiondTag takes.
local M = {}

-- The tags with the words added or, with `-` before them, removed.
function M.changed(tags, words)
  local result = vim.deepcopy(tags)
  for word in words:gmatch('%S+') do
    local tag = word:gsub('^[+-]', '')
    result = vim.tbl_filter(function(one)
      return one ~= tag
    end, result)
    if word:sub(1, 1) ~= '-' and tag ~= '' then
      result[#result + 1] = tag
    end
  end
  return result
end

-- The session's own tags, for removal.
function M.complete(lead)
  local here = require('sessiond.room').current()
  local words = vim.tbl_map(function(tag)
    return '-' .. tag
  end, here and here.t.info.tags or {})
  return vim.tbl_filter(function(word)
    return vim.startswith(word, lead)
  end, words)
end

return M
