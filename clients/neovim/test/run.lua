-- Runs the tests of one file: a table {name, function}, in order. $SESSIOND_TEST names the file, results go to $SESSIOND_RESULT.
--   nvim --headless -u NONE -i NONE -c 'luafile run.lua'
local folder = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
vim.opt.runtimepath:prepend(vim.fn.fnamemodify(folder, ':h'))
package.path = folder .. '/?.lua;' .. package.path
vim.cmd('runtime plugin/sessiond.lua')
vim.cmd('filetype plugin on')

local function wipe()
  pcall(vim.cmd, 'silent! %bwipeout!')
end

-- The next test finds no buffers and makes a connection of its own.
local function clean_up()
  local client = require('sessiond.client')
  wipe()
  require('help').close_all()
  client.config = { command = 'sessiond' }
  client.abandon()
  vim.wait(5000, function() return not client.connected() end, 5)
  vim.wait(20)
  wipe()
  vim.cmd('messages clear')
end

local results, failed = {}, false

local function say(line)
  results[#results + 1] = line
end

local ok, tests = pcall(dofile, vim.env.SESSIOND_TEST)
if not ok then
  say('FAILED to load: ' .. tostring(tests))
  failed = true
else
  for _, test in ipairs(tests) do
    vim.v.errmsg = ''
    local start = (vim.uv or vim.loop).hrtime()
    local passed, problem = xpcall(test[2], debug.traceback)
    if passed and vim.v.errmsg:match('^E%d') then
      passed, problem = false, vim.v.errmsg
    end
    if passed then
      say(('ok %s %.2f s'):format(test[1], ((vim.uv or vim.loop).hrtime() - start) / 1e9))
    else
      failed = true
      say('FAILED ' .. test[1])
      say(tostring(problem))
      say('messages: ' .. vim.fn.execute('messages'))
    end
    clean_up()
  end
end

local file = assert(io.open(vim.env.SESSIOND_RESULT, 'w'))
file:write(table.concat(results, '\n'), '\n')
file:close()
vim.cmd(failed and 'cquit!' or 'qall!')
