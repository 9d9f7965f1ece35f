-- Words for the user, by vim.notify: `:messages`, or the user's replacement for it.
local M = {}

-- The beginning of a text that fits into `cells` columns.
local function beginning(text, cells)
  local fits = vim.fn.strcharpart(text, 0, cells)
  while vim.fn.strdisplaywidth(fits) > cells do
    fits = vim.fn.strcharpart(fits, 0, vim.fn.strchars(fits) - 1)
  end
  return fits
end

-- Neovim's own vim.notify waits for a key after a text that is longer than the line. So only the beginning is shown, and
-- `:messages` has the whole text. A replacement by the user gets the text itself.
local function is_stock()
  return debug.getinfo(vim.notify, 'S').source:find('vim/_editor.lua', 1, true) ~= nil
end

local function notify(text, level)
  -- On one line and without control characters: text from a file or a model must not control the terminal.
  local line = 'sessiond: ' .. text:gsub('%c+', ' ')
  if not is_stock() or vim.fn.strdisplaywidth(line) <= vim.v.echospace then
    vim.notify(line, level)
    return
  end
  vim.cmd('echohl ' .. (level == vim.log.levels.WARN and 'WarningMsg' or 'None'))
  vim.cmd('echomsg ' .. vim.fn.string(line))
  vim.cmd('redraw')
  vim.cmd('echo ' .. vim.fn.string(beginning(line, vim.v.echospace - 1) .. '…'))
  vim.cmd('echohl None')
end

-- failure: {message, hint?}. `doing` names what failed. As a warning: at level ERROR Neovim itself would end what is being
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
