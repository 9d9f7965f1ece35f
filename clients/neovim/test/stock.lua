-- The lines of stock-lsp.md work, without the plugin.
local t = require('help')

-- The code block that begins with `-- VERSION`.
local function snippet(version)
  local folder = vim.fn.fnamemodify(vim.env.SESSIOND_TEST, ':h:h')
  local page = table.concat(vim.fn.readfile(folder .. '/stock-lsp.md'), '\n')
  return page:match('```lua\n(%-%- ' .. vim.pesc(version) .. '\n.-)```')
end

local function version()
  if vim.fn.has('nvim-0.11') == 1 then
    return '0.11'
  end
  return vim.fn.has('nvim-0.8') == 1 and '0.8' or '0.7'
end

local function ask(method, params)
  local result
  t.wait(method, function()
    for _, answer in pairs(vim.lsp.buf_request_sync(0, method, params, 5000) or {}) do
      result = answer.result
    end
    return result and #result > 0
  end)
  return result
end

return {
  {
    'an opened session file has an outline, and all sessions are searched',
    function()
      local other = t.other()
      t.ask(other, 'session/new', {
        sessionId = 'a', name = 'stock', messages = { { role = 'user', content = 'カタツムリ' }, { role = 'assistant', content = 'yes' } },
      })
      local saved = t.ask(other, 'session/save', { sessionId = 'a' }).saved[1]
      assert(loadstring(snippet(version())))()
      vim.cmd('filetype on')
      vim.cmd('edit ' .. vim.fn.fnameescape(saved.path))
      local clients = vim.lsp.get_clients or vim.lsp.get_active_clients
      t.wait('it is attached', function()
        return #clients() == 1
      end)
      local symbols = ask('textDocument/documentSymbol', { textDocument = { uri = vim.uri_from_bufnr(0) } })
      t.matches('カタツムリ', vim.inspect(symbols))
      local found = ask('workspace/symbol', { query = 'カタツムリ' })
      t.equal(vim.uri_from_bufnr(0), found[1].location.uri)
      for _, client in ipairs(clients()) do
        client.stop(client)
      end
    end,
  },
}
