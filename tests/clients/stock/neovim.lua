-- Session files in Neovim's own LSP client, without the plugin. Run by test_stock_clients.py: $SESSIOND_FILE is a session's file,
-- $SESSIOND_BROKEN one with a line that cannot be read; results go to $SESSIOND_RESULT, a line each.
local results = {}
local client_id

local function check(name, test)
  local ok, found = xpcall(test, debug.traceback)
  results[#results + 1] = (ok and found) and 'ok ' .. name or ('FAILED ' .. name .. ': ' .. tostring(found))
end

local function wait(holds)
  local found
  vim.wait(20000, function()
    found = holds()
    return found
  end, 10)
  return found
end

local function start()
  if vim.lsp.start then
    return vim.lsp.start({ name = 'sessiond', cmd = { 'sessiond' }, root_dir = vim.fn.getcwd() })
  end
  client_id = client_id or vim.lsp.start_client({ name = 'sessiond', cmd = { 'sessiond' }, root_dir = vim.fn.getcwd() })
  vim.lsp.buf_attach_client(0, client_id)
  return client_id
end

local function open(name)
  vim.cmd('edit ' .. vim.fn.fnameescape(vim.env[name]))
  client_id = start()
  assert(wait(function()
    local client = vim.lsp.get_client_by_id(client_id)
    return client and client.server_capabilities and client.server_capabilities.hoverProvider
  end), 'it is not attached')
end

local function ask(method, params)
  params = vim.tbl_extend('keep', params, { textDocument = { uri = vim.uri_from_bufnr(0) } })
  for _, answer in pairs(assert(vim.lsp.buf_request_sync(0, method, params, 20000))) do
    assert(not answer.error and not answer.err, vim.inspect(answer))
    return answer.result
  end
end

local third = { line = 2, character = 0 }

local function act(title)
  local actions = ask('textDocument/codeAction', { range = { start = third, ['end'] = third }, context = { diagnostics = {} } })
  for _, action in ipairs(actions) do
    if action.title:find(title) then
      local command = type(action.command) == 'table' and action.command or action
      return ask('workspace/executeCommand', { command = command.command, arguments = command.arguments })
    end
  end
end

check('it is attached', function()
  open('SESSIOND_FILE')
  return true
end)
check('the outline', function()
  local items = vim.lsp.util.symbols_to_items(ask('textDocument/documentSymbol', {}), 0, 'utf-16')
  local text = vim.inspect(items)
  return text:find('Which lock is first') and text:find('grep')
end)
check('hover', function()
  return vim.inspect(ask('textDocument/hover', { position = third })):find('m%-1')
end)
check('folds, one for each turn', function()
  open('SESSIOND_ORG')
  local ranges = ask('textDocument/foldingRange', {})
  if vim.lsp.foldexpr then
    vim.wo.foldmethod = 'expr'
    vim.wo.foldexpr = 'v:lua.vim.lsp.foldexpr()'
    assert(wait(function()
      return vim.fn.foldlevel(ranges[1].startLine + 1) == 1 and vim.fn.foldlevel(ranges[2].startLine + 1) == 1
    end), 'foldexpr does not fold')
    vim.wo.foldmethod = 'manual'
  end
  open('SESSIOND_FILE')
  return #ranges == 2
end)
check('symbols search all sessions', function()
  local found = ask('workspace/symbol', { query = 'zebra-word' })
  return #found == 1 and found[1].location.range.start.line == 2 and vim.uri_to_fname(found[1].location.uri) == vim.env.SESSIOND_FILE
end)
check('resume is executed', function()
  return act('Resume').session.sessionId == 'a'
end)
check('fork is executed', function()
  return act('Fork').session.parent.sessionId == 'a'
end)
check('export is executed', function()
  return act('Export').content:find('zebra%-word')
end)
check('a broken line is a diagnostic', function()
  open('SESSIOND_BROKEN')
  local found = wait(function()
    local all = vim.diagnostic.get(0)
    return #all > 0 and all
  end)
  return #found == 1 and found[1].lnum == 2
end)

local file = assert(io.open(vim.env.SESSIOND_RESULT, 'w'))
file:write(table.concat(results, '\n'), '\n')
file:close()
vim.cmd('qall!')
