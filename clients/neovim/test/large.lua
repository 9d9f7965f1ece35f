-- A session of 20,000 messages.
local t = require('help')

local COUNT = 20000

local function lines_are(count)
  t.wait(count .. ' messages', function()
    return vim.api.nvim_buf_line_count(0) == 3 * count + 1
  end)
end

return {
  {
    'the last screen comes at once and the rest on demand',
    function()
      local other = t.other()
      t.ask(other, 'session/new', { sessionId = 'large', name = 'large' })
      t.append(other, 'large', t.many(1, COUNT / 2))
      t.append(other, 'large', t.many(COUNT / 2 + 1, COUNT))
      vim.cmd('edit sessiond://large')
      t.wait('the end', function()
        return vim.fn.getline(vim.fn.line('$') - 1) == 'message ' .. COUNT
      end)
      lines_are(200)
      t.equal('· 19800 older messages: come to this line, or :SessiondOlder', vim.fn.getline(1))
      t.equal(('[large:%d]'):format(COUNT), t.statusline())

      vim.cmd('SessiondOlder')
      lines_are(400)
      t.equal(vim.fn.line('$'), vim.fn.line('.'))

      -- From the first line the cursor goes on to where it was reading.
      vim.fn.cursor(1, 1)
      vim.cmd('doautocmd CursorMoved')
      lines_are(600)
      t.matches('^▌', vim.fn.getline('.'))
      t.equal('message ' .. COUNT - 399, vim.fn.getline(vim.fn.line('.') + 1))

      -- Others may say something meanwhile.
      t.append(other, 'large', { { role = 'user', content = 'news' } })
      vim.cmd('SessiondOlder!')
      lines_are(COUNT + 1)
      t.matches('^· large', vim.fn.getline(1))
      local texts = t.texts()
      for n = 1, COUNT do
        t.equal('message ' .. n, texts[n])
      end
    end,
  },
  {
    'a hit far back is shown with all that follows',
    function()
      local other = t.other()
      t.ask(other, 'session/new', { sessionId = 'far', messages = t.many(1, 5000) })
      vim.cmd('edit sessiond://far@1234')
      t.wait('the message', function()
        return vim.fn.bufname() == 'sessiond://far' and vim.fn.getline(vim.fn.line('.') + 1) == 'message 1234'
      end)
      t.equal('message 5000', vim.fn.getline(vim.fn.line('$') - 1))
    end,
  },
}
