-- A session that others write to while it is shown.
local t = require('help')

local function extend(other, id, message, text)
  t.ask(other, 'session/extend', { sessionId = id, messageId = message, text = text })
end

local function begin(other, id, message, content)
  t.append(other, id, { { id = message, role = 'assistant', content = content, status = 'streaming' } })
end

return {
  {
    'another Neovim keeps its part of the draft',
    function()
      local id = t.new('two')
      local buf = vim.api.nvim_get_current_buf()
      local other = t.other()
      t.ask(other, 'session/open', { sessionId = id })
      local function kept(expected)
        t.wait('the draft ' .. expected, function()
          return t.ask(other, 'state/get', { sessionId = id }).values['draft:neovim'] == expected
        end)
      end
      t.ask(other, 'state/set', { sessionId = id, values = { ['draft:neovim'] = 'a long thought' } })
      t.append(other, id, { { role = 'assistant', content = 'heard' } })
      t.wait('heard', function()
        return t.statusline(buf) == '[two:1]'
      end)
      vim.cmd('SessiondDraft')
      vim.fn.setline(1, 'hi')
      vim.cmd('doautocmd TextChanged')
      kept('a long thought\n\nhi')
      t.wait('that is known', function()
        return not vim.bo.modified
      end)
      vim.cmd('SessiondSay')
      kept('a long thought')
      t.equal({ '' }, t.draft(id))
    end,
  },
  {
    'both sides see each other at once',
    function()
      local id = t.new('both')
      local other = t.other()
      t.ask(other, 'session/open', { sessionId = id })
      t.append(other, id, { { role = 'user', content = 'from the other\nside' }, { role = 'assistant', content = '' } })
      t.wait_for_texts({ 'from the other', 'side' })
      vim.cmd('SessiondSay von hier')
      t.wait('the other hears it', function()
        for _, one in ipairs(other.heard) do
          if one[1] == 'session/changed' and one[2].changes[1].messages[1].content == 'von hier' then
            t.equal('neovim', one[2].origin.client)
            return true
          end
        end
      end)
      t.wait_for_texts({ 'from the other', 'side', 'von hier' })
      t.equal('[both:3]', t.statusline())
    end,
  },
  {
    'a streamed reply grows by code points',
    function()
      local id = t.new('stream')
      local other = t.other()
      begin(other, id, 'r', '日')
      t.wait('it begins', function()
        return vim.deep_equal(t.texts(), { '日' }) and t.heads()[1]:match(' · …$')
      end)
      extend(other, id, 'r', '本\n😀')
      t.wait_for_texts({ '日本', '😀' })
      extend(other, id, 'r', '👩‍💻é\n\nlast')
      t.wait_for_texts({ '日本', '😀👩‍💻é', 'last' })
      t.ask(other, 'session/finish', {
        sessionId = id, messageId = 'r', toolCalls = { { id = 'c', name = 'ls', arguments = { path = '/' } } },
      })
      t.wait_for_texts({ '日本', '😀👩‍💻é', 'last', '→ ls({"path":"/"})' })
      t.equal(nil, t.heads()[1]:match('…'))
    end,
  },
  {
    'a reply that is cut off says so and what came stays',
    function()
      local id = t.new('cut')
      local other = t.other()
      begin(other, id, 'r', 'Once')
      extend(other, id, 'r', ' upon')
      t.wait_for_texts({ 'Once upon' })
      other:close()
      t.wait('it is interrupted', function()
        return t.heads()[1]:match(' · interrupted$')
      end)
      t.wait_for_texts({ 'Once upon' })
      t.equal('[cut:1]', t.statusline())
    end,
  },
  {
    'two replies stream at once and messages come in between',
    function()
      local id = t.new('two')
      local one, two = t.other(), t.other()
      begin(one, id, 'r1', 'a')
      begin(two, id, 'r2', 'x')
      vim.cmd('SessiondSay between')
      t.wait_for_texts({ 'a', 'x', 'between' })
      for n = 0, 29 do
        extend(one, id, 'r1', n % 10 == 9 and n .. '\n' or tostring(n))
        extend(two, id, 'r2', '-')
      end
      t.wait_for_texts({ 'a0123456789', '10111213141516171819', '20212223242526272829', 'x' .. ('-'):rep(30), 'between' })
    end,
  },
  {
    'windows at the end follow and others stay',
    function()
      local id = t.new('follow')
      local other = t.other()
      t.append(other, id, t.many(1, 30))
      t.wait('they are shown', function()
        return #t.texts() == 30
      end)
      t.equal(vim.fn.line('$'), vim.fn.line('.'))
      vim.cmd('split')
      vim.fn.cursor(5, 1)
      local text = vim.fn.getline('.')
      t.append(other, id, { { role = 'user', content = 'news' } })
      t.wait('it is shown', function()
        return #t.texts() == 31
      end)
      t.equal({ 5, text }, { vim.fn.line('.'), vim.fn.getline('.') })
      vim.cmd('wincmd j')
      t.equal(vim.fn.line('$'), vim.fn.line('.'))
      vim.cmd('only')
    end,
  },
  {
    'names, clears and truncations of others are shown',
    function()
      local id = t.new('many')
      local other = t.other()
      t.append(other, id, t.many(1, 6))
      t.wait('they are shown', function()
        return #t.texts() == 6
      end)
      t.ask(other, 'session/truncate', { sessionId = id, afterSeq = 4 })
      t.wait_for_texts({ 'message 1', 'message 2', 'message 3', 'message 4' })
      t.ask(other, 'session/update', { sessionId = id, name = '改名' })
      t.wait_for_statusline('[改名:4]')
      t.ask(other, 'session/clear', { sessionId = id })
      t.wait('nothing is left', function()
        return t.statusline() == '[改名:0]' and #t.heads() == 0
      end)
      vim.cmd('SessiondSay again')
      t.wait_for_texts({ 'again' })
    end,
  },
  {
    'a session deleted by somebody else keeps its text and what is said',
    function()
      local id = t.new('doomed')
      vim.cmd('SessiondSay kept')
      t.wait_for_texts({ 'kept' })
      t.ask(t.other(), 'session/delete', { sessionId = id })
      t.wait_for_message('was deleted by somebody else')
      t.equal('[doomed:1 gone]', t.statusline())
      vim.cmd('SessiondSay 消えないで')
      t.wait_for_message('not sent: ')
      t.equal({ '消えないで' }, t.draft(id))
      t.equal({ 'kept' }, t.texts())
    end,
  },
  {
    'a session moved by somebody else is said to be elsewhere',
    function()
      local id, other = t.new('mover'), t.other()
      vim.cmd('SessiondSay kept')
      t.wait_for_texts({ 'kept' })
      local folder = vim.fn.tempname()
      vim.fn.mkdir(folder)
      t.ask(other, 'store/adopt', { path = folder, name = 'shelf', format = 'jsonl' })
      t.ask(other, 'session/move', { sessionId = id, store = 'shelf' })
      t.wait_for_message('was moved by somebody else; `:SessiondSwitch shelf/' .. id)
      vim.cmd('SessiondSwitch shelf/' .. id)
      t.wait_for_texts({ 'kept' })
    end,
  },
  {
    'a session that was deleted and restored is open again when it is shown or spoken to',
    function()
      local id, other = t.new('back'), t.other()
      local function come_and_go()
        t.ask(other, 'session/delete', { sessionId = id })
        t.wait('it is gone', function()
          return t.statusline():match('gone')
        end)
        t.ask(other, 'session/restore', { sessionId = id })
      end
      come_and_go()
      vim.cmd('SessiondSay one')
      t.wait_for_texts({ 'one' })
      come_and_go()
      vim.cmd('SessiondSwitch ' .. id)
      t.wait_for_statusline('[back:1]')
      t.append(other, id, { { role = 'user', content = 'two' } })
      t.wait_for_texts({ 'one', 'two' })
    end,
  },
  {
    'blocks, thinking and control characters are shown as text',
    function()
      local id = t.new('blocks')
      local other = t.other()
      local blocks = { { type = 'text', text = 'one\ntwo' }, { type = 'image' }, 'bare' }
      t.append(other, id, { { role = 'assistant', thinking = 'let me\nsee', content = blocks } })
      t.append(other, id, { { role = 'to\nol', toolCallId = 'c1', content = 'a\rb\tc\0d' } })
      t.wait_for_texts({ '> let me', '> see', 'one', 'two', '{"type":"image"}', 'bare', 'a\rb\tc\0d' })
      t.matches('^▌ to ol · result of c1 · ', t.heads()[2])
    end,
  },
  {
    'text that looks like a head moves nothing',
    function()
      local id = t.new('heads')
      local other = t.other()
      begin(other, id, 'r', '▌ user · 2026\nx')
      t.append(other, id, { { role = 'user', content = 'y' } })
      t.wait_for_texts({ 'x', 'y' })
      extend(other, id, 'r', '!')
      t.wait_for_texts({ 'x!', 'y' })
    end,
  },
  {
    'hidden buffers follow too',
    function()
      local id = t.new('hidden')
      local buf = vim.api.nvim_get_current_buf()
      t.new('shown')
      t.append(t.other(), id, { { role = 'user', content = 'while away' } })
      t.wait_for_texts({ 'while away' }, buf)
      vim.cmd('buffer ' .. buf)
      t.equal('[hidden:1]', t.statusline())
    end,
  },
}
