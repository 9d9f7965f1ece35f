-- The relay or the daemon dies under an open buffer.
local t = require('help')

local function append(other, id, content)
  t.append(other, id, { { role = 'user', content = content } })
end

return {
  {
    'after a killed relay nothing is missing or shown twice',
    function()
      local id = t.new('relay')
      vim.cmd('SessiondSay one')
      t.wait_for_texts({ 'one' })
      local other = t.other()
      t.append(other, id, { { id = 'r', role = 'assistant', content = 'begun', status = 'streaming' } })
      t.wait_for_texts({ 'one', 'begun' })
      require('sessiond.client').abandon()
      append(other, id, 'missed')
      t.ask(other, 'session/extend', { sessionId = id, messageId = 'r', text = ' and ended' })
      t.ask(other, 'session/finish', { sessionId = id, messageId = 'r' })
      t.ask(other, 'session/update', { sessionId = id, name = 'renamed' })
      t.wait_for_texts({ 'one', 'begun and ended', 'missed' })
      t.wait_for_statusline('[renamed:3]')
      append(other, id, 'live again')
      t.wait_for_texts({ 'one', 'begun and ended', 'missed', 'live again' })
      t.matches('reconnected', t.messages())
    end,
  },
  {
    'after a killed daemon nothing is missing or shown twice',
    function()
      local id = t.new('daemon')
      vim.cmd('SessiondSay one')
      t.wait_for_texts({ 'one' })
      local other = t.other()
      t.append(other, id, { { id = 'r', role = 'assistant', content = 'cut', status = 'streaming' } })
      t.wait_for_texts({ 'one', 'cut' })
      t.kill_daemon(other)
      t.wait_for_statusline('[daemon:2 offline]')
      vim.cmd('SessiondSay 留守の間に')
      t.equal('[daemon:2 offline 1 unsent]', t.statusline())
      t.wait_for_texts({ 'one', 'cut', '留守の間に' })
      t.wait('the reply is cut off', function()
        return t.heads()[2]:match(' · interrupted$')
      end)
      t.equal('[daemon:3]', t.statusline())
      local fresh = t.other()
      local kept = vim.tbl_map(function(message)
        return message.content
      end, t.ask(fresh, 'session/read', { sessionId = id }).messages)
      t.equal({ 'one', 'cut', '留守の間に' }, kept)
      append(fresh, id, 'live again')
      t.wait_for_texts({ 'one', 'cut', '留守の間に', 'live again' })
    end,
  },
  {
    'all open sessions are caught up',
    function()
      local bufs, ids = {}, {}
      for n = 1, 3 do
        ids[n] = t.new('all' .. n)
        bufs[n] = vim.api.nvim_get_current_buf()
      end
      t.kill_daemon(t.other())
      t.wait_for_statusline('[all3:0 offline]')
      local fresh = t.other()
      for n = 1, 3 do
        append(fresh, ids[n], 'in ' .. ids[n])
      end
      for n = 1, 3 do
        t.wait_for_texts({ 'in ' .. ids[n] }, bufs[n])
      end
    end,
  },
  {
    'a large message to a daemon that stands still does not stop Neovim',
    function()
      local other = t.other()
      local id = t.new('large')
      local pid = t.ask(other, 'daemon/hello', {}).pid
      local text = ('0123456789'):rep(100000)
      local uv = vim.uv or vim.loop
      uv.kill(pid, 'sigstop')
      -- More than all pipes and sockets on the way take.
      local fine, why = pcall(function()
        require('sessiond').say(text)
        t.matches('1 unsent', t.statusline())
        vim.cmd('SessiondName typed on meanwhile')
      end)
      uv.kill(pid, 'sigcont')
      assert(fine, why)
      t.wait('it is there', function()
        return #t.ask(other, 'session/read', { sessionId = id }).messages == 1
      end)
      t.equal(text, t.ask(other, 'session/read', { sessionId = id }).messages[1].content)
      t.wait_for_statusline('[typed on meanwhile:1]')
    end,
  },
}
