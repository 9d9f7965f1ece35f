-- Goes on with a session in another tool: `sessiond resume` in a terminal.

local client = require('sessiond.client')
local say = require('sessiond.say')

local M = {}

local TOOLS = { 'aider', 'claude', 'cline', 'codex', 'gemini', 'llm', 'opencode', 'pi', 'qwen' }

-- Those that are installed come first.
function M.complete(lead)
  local there, missing = {}, {}
  for _, tool in ipairs(TOOLS) do
    if vim.startswith(tool, lead) then table.insert(vim.fn.executable(tool) == 1 and there or missing, tool) end
  end
  return vim.list_extend(there, missing)
end

-- Runs the command in a terminal window; with `yank_only` it goes into the unnamed register.
function M.resume(mods, id, tool, yank_only)
  if not vim.tbl_contains(TOOLS, tool) then
    say.error('not resumed', { message = tool .. ' is not a tool that can go on with a session', hint = table.concat(TOOLS, ', ') })
    return
  end
  local command = vim.list_extend(vim.deepcopy(client.command()), { 'resume', id, '--in', tool, '--run' })
  if yank_only then
    local words = vim.tbl_map(function(word) return word:match('^[%w._/-]+$') and word or vim.fn.shellescape(word) end, command)
    vim.fn.setreg('"', table.concat(words, ' '))
    say.info(table.concat(words, ' '))
    return
  end
  vim.cmd(mods .. ' new')
  if vim.fn.has('nvim-0.11') == 1 then
    vim.fn.jobstart(command, { term = true })
  else
    vim.fn.termopen(command)
  end
  vim.cmd('startinsert')
end

return M
