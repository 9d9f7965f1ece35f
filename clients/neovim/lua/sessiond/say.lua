-- Words for the user, by vim.notify: `:messages`, or whatever the user has put in its place.
local M = {}

local function notify(text, level)
  -- On one line and without control characters: what comes from a file or a model must not drive the terminal.
  vim.notify('sessiond: ' .. text:gsub('%c+', ' '), level)
end

-- failure: {message, hint?}. `doing` names what failed. As a warning: at level ERROR Neovim itself would end whatever is being
-- executed and stop for a second at the next redraw.
function M.error(doing, failure)
  local hint = type(failure.hint) == 'string' and (' (%s)'):format(failure.hint) or ''
  notify(doing .. ': ' .. failure.message .. hint, vim.log.levels.WARN)
end

function M.warn(text)
  notify(text, vim.log.levels.WARN)
end

function M.info(text)
  notify(text, vim.log.levels.INFO)
end

return M
