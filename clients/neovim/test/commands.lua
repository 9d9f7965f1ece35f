-- Each command does what it says, against a real daemon.
local t = require('help')

local function complete(line)
  return require('sessiond.pick').complete(line:match('%S*$'), line, #line)
end

local function name_is_listed(other, name, count)
  t.wait(name .. ' is listed', function()
    return #t.ask(other, 'session/list', { filter = { name = name } }).sessions == count
  end)
end

local function contents(other, id)
  return vim.tbl_map(function(message)
    return message.content
  end, t.ask(other, 'session/read', { sessionId = id }).messages)
end

local function quickfix_title(title)
  t.wait('the list ' .. title, function()
    return vim.fn.getqflist({ title = 0 }).title == title
  end)
end

return {
  {
    'new shows an empty session with name and count',
    function()
      local id = t.new('first')
      t.equal('sessiond://' .. id, vim.fn.bufname())
      t.equal({ ('· first (%s)'):format(id) }, vim.api.nvim_buf_get_lines(0, 0, -1, false))
      t.equal({ 'nofile', false }, { vim.bo.buftype, vim.bo.modifiable })
    end,
  },
  {
    'new without a name shows part of the id',
    function()
      vim.cmd('SessiondNew')
      t.wait('it is shown', function()
        return t.statusline():match('^%[%d+%-%d+[-%d]*:0%]$')
      end)
    end,
  },
  {
    'say sends the text as it was typed',
    function()
      local id = t.new('say')
      vim.cmd([[SessiondSay " it's | 100% <q-args> 日本語 😀]])
      t.wait_for_texts({ [[" it's | 100% <q-args> 日本語 😀]] })
      t.matches('^▌ user · %d%d%d%d%-', t.heads()[1])
      t.equal('[say:1]', t.statusline())
      t.equal({ [[" it's | 100% <q-args> 日本語 😀]] }, contents(t.other(), id))
    end,
  },
  {
    'say with a range sends lines of any buffer to the session used last',
    function()
      local id = t.new('range')
      local buf = vim.api.nvim_get_current_buf()
      vim.cmd('new')
      vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'def f():', "\treturn '日本'", 'rest' })
      vim.bo.modified = false
      vim.cmd('1,2SessiondSay what is this?')
      t.wait_for_texts({ 'what is this?', 'def f():', "\treturn '日本'" }, buf)
      vim.cmd('3SessiondSay')
      t.wait_for_texts({ 'what is this?', 'def f():', "\treturn '日本'", 'rest' }, buf)
      t.equal(id, vim.api.nvim_buf_get_var(buf, 'sessiond_id'))
    end,
  },
  {
    'the draft is sent by say and empty afterwards',
    function()
      local id = t.new('typed')
      local buf = vim.api.nvim_get_current_buf()
      vim.cmd('SessiondDraft')
      t.equal('sessiond-draft://' .. id, vim.fn.bufname())
      t.equal('[typed:0]', t.statusline())
      vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'two', 'lines' })
      vim.cmd([[execute "normal \<CR>"]])
      t.wait_for_texts({ 'two', 'lines' }, buf)
      t.equal({ '' }, t.draft(id))
    end,
  },
  {
    'completion knows all sessions with name, count, time and tags',
    function()
      local other = t.other()
      t.ask(other, 'session/new', {
        sessionId = 'c-1', name = 'Über 計画', tags = { 'work', 'x' }, messages = { { role = 'user', content = 'a' } },
      })
      for n = 1, 60 do
        t.ask(other, 'session/new', { sessionId = 'many-' .. n })
      end
      t.wait('all are listed', function()
        return #t.ask(other, 'session/list', { limit = 500 }).sessions >= 61
      end)
      t.equal(60, #complete('SessiondSwitch many'))
      local found = complete('SessiondSwitch 計画')
      t.equal(1, #found)
      t.matches('^c%-1  Über 計画 · 1 message · %d%d%d%d%-%d%d%-%d%d %d%d:%d%d · #work #x$', found[1])
      t.ask(other, 'session/activity', { sessionId = 'c-1', state = 'working' })
      t.matches('^c%-1  Über 計画 · works · 1 message · ', complete('SessiondSwitch 計画')[1])
      t.ask(other, 'session/activity', { sessionId = 'c-1', state = 'idle' })
      t.equal({ 'c-1' }, complete('vert SessiondSwitch #work 計'))
      t.equal(found, vim.fn.getcompletion('SessiondSwitch über', 'cmdline'))
    end,
  },
  {
    'long ids are short, and lead to their session',
    function()
      local other = t.other()
      local long = 'imported-11111111-2222-3333-4444-'
      for _, tail in ipairs({ '5555aaaa', '5555bbbb', '6' }) do
        t.ask(other, 'session/new', { sessionId = long .. tail, name = 'long ' .. tail, messages = { { role = 'user', content = tail } } })
      end
      t.ask(other, 'session/new', { sessionId = 'imported-99999999-2222-3333-4444-555555555555', name = 'long 9' })
      name_is_listed(other, 'long ', 4)
      local found = vim.tbl_map(function(line)
        return line:match('%S+')
      end, complete('SessiondSwitch long'))
      table.sort(found)
      t.equal({ long .. '5555a', long .. '5555b', long .. '6', 'imported-99999999-2222-333' }, found)
      vim.cmd('SessiondSwitch ' .. long .. '5555b')
      t.wait_for_texts({ '5555bbbb' })
    end,
  },
  {
    "Neovim's own menu shows a screenful, and the older ones on demand",
    function()
      local other = t.other()
      for n = 1, 40 do
        t.ask(other, 'session/new', { sessionId = 'own-' .. n, name = 'pageful ' .. n })
      end
      name_is_listed(other, 'pageful ', 40)
      local asked = {}
      local inputlist = vim.fn.inputlist
      vim.fn.inputlist = function(lines)
        asked[#asked + 1] = #lines
        return #asked == 1 and #lines - 1 or 1 -- the older ones, then the first of them
      end
      vim.cmd('SessiondSwitch pageful')
      t.wait('a session is shown', function()
        return vim.api.nvim_buf_get_name(0):match('sessiond://own%-')
      end)
      vim.fn.inputlist = inputlist
      t.equal(2, #asked)
      t.equal(true, asked[1] < vim.o.lines)
      t.equal('sessiond://own-' .. (40 - (asked[1] - 2)), vim.api.nvim_buf_get_name(0):match('sessiond://own%-%d+'))
    end,
  },
  {
    'switch takes an id, a completed line, or words',
    function()
      local other = t.other()
      t.ask(other, 'session/new', { sessionId = 's-1', name = 'alpha plan', messages = { { role = 'user', content = 'one' } } })
      t.ask(other, 'session/new', { sessionId = 's-2', name = 'beta plan', messages = { { role = 'user', content = 'two' } } })
      name_is_listed(other, ' plan', 2)
      vim.cmd('SessiondSwitch s-1')
      t.wait_for_texts({ 'one' })
      vim.cmd('SessiondSwitch BETA pl')
      t.wait_for_texts({ 'two' })
      vim.cmd('SessiondSwitch s-1  alpha plan · 1 message · whenever')
      t.wait_for_texts({ 'one' })
      vim.cmd('vertical SessiondSwitch s-2')
      t.wait('a second window', function()
        return vim.fn.winnr('$') == 2
      end)
      t.wait_for_texts({ 'two' })
      vim.cmd('SessiondSwitch no-such-session')
      t.wait_for_message('no-such-session cannot be opened: ')
    end,
  },
  {
    'a new session takes the place of conversation and draft',
    function()
      local first = t.new('first')
      vim.cmd('SessiondDraft')
      vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'kept' })
      vim.cmd('SessiondNew second')
      t.wait_for_statusline('[second:0]')
      -- One window, and no draft of another conversation below it.
      t.equal({ vim.api.nvim_get_current_buf() }, vim.fn.tabpagebuflist())
      t.equal({ 'kept' }, t.draft(first))
      -- Beside it all stays.
      vim.cmd('SessiondDraft')
      vim.cmd('vertical SessiondNew third')
      t.wait_for_statusline('[third:0]')
      t.equal(3, #vim.fn.tabpagebuflist())
    end,
  },
  {
    'switch with several matches or nothing asks by vim.ui.select',
    function()
      local other = t.other()
      t.ask(other, 'session/new', { sessionId = 'm-1', name = 'menu a' })
      t.ask(other, 'session/new', { sessionId = 'm-2', name = 'menu b', messages = { { role = 'user', content = 'picked' } } })
      name_is_listed(other, 'menu ', 2)
      local select, shown = vim.ui.select, nil
      vim.ui.select = function(items, options, done)
        shown = vim.tbl_map(options.format_item, items)
        for _, item in ipairs(items) do
          if item.sessionId == 'm-2' then
            done(item)
          end
        end
      end
      vim.cmd('SessiondSwitch menu')
      t.wait_for_texts({ 'picked' })
      t.equal(2, #shown)
      vim.cmd('bdelete')
      vim.cmd('SessiondSwitch')
      t.wait_for_texts({ 'picked' })
      vim.ui.select = select
      t.matches('menu b · 1 message · [^\n]* · m%-2\n', table.concat(shown, '\n') .. '\n')
    end,
  },
  {
    'search fills the quickfix list and an entry leads to its message',
    function()
      local other = t.other()
      local messages = t.many(0, 449)
      messages[4].content = 'the カタツムリ is slow'
      t.ask(other, 'session/new', { sessionId = 'q-1', name = 'snails', messages = messages })
      t.wait('it is found', function()
        return t.ask(other, 'session/search', { query = 'カタツムリ' }).total == 1
      end)
      vim.cmd('SessiondSearch カタツムリ')
      quickfix_title('sessiond: カタツムリ')
      t.equal('quickfix', vim.bo.buftype)
      local entry = vim.fn.getqflist()[1]
      t.equal({ 'snails', '[user] the カタツムリ is slow' }, { entry.module, entry.text })
      vim.cmd('cfirst')
      t.wait('the message', function()
        return vim.fn.bufname() == 'sessiond://q-1' and vim.fn.getline(vim.fn.line('.') + 1) == 'the カタツムリ is slow'
      end)
      vim.cmd('SessiondSearch nothinglikethis')
      t.wait_for_message('nothing found for nothinglikethis')
      vim.cmd('SessiondSearch! カ[タ]ツ')
      quickfix_title('sessiond: カ[タ]ツ')
      vim.cmd('SessiondSearch! (')
      t.wait_for_message('the search failed: ')
    end,
  },
  {
    'name, tag and archive change the session',
    function()
      local id = t.new('before')
      local other = t.other()
      vim.cmd('SessiondName after 後')
      t.wait_for_statusline('[after 後:0]')
      t.equal(('· after 後 (%s)'):format(id), vim.fn.getline(1))
      vim.cmd('SessiondTag a +b c')
      t.wait_for_message('tags: a b c')
      vim.cmd('SessiondTag -b d')
      t.wait_for_message('tags: a c d')
      t.equal({ '-a', '-c', '-d' }, vim.fn.getcompletion('SessiondTag ', 'cmdline'))
      t.equal({ 'a', 'c', 'd' }, t.ask(other, 'session/open', { sessionId = id }).session.tags)
      vim.cmd('SessiondTag -a -c -d')
      t.wait('no tags', function()
        return #t.ask(other, 'session/open', { sessionId = id }).session.tags == 0
      end)
      vim.cmd('SessiondArchive')
      t.wait_for_message('is archived')
      t.equal(true, t.ask(other, 'session/open', { sessionId = id }).session.archived)
      vim.cmd('SessiondArchive!')
      t.wait_for_message('is no longer archived')
    end,
  },
  {
    'fork copies all or up to the cursor',
    function()
      t.new('trunk')
      vim.cmd('SessiondSay one')
      vim.cmd('SessiondSay two')
      t.wait_for_texts({ 'one', 'two' })
      vim.cmd('SessiondFork branch')
      t.wait_for_statusline('[branch:2]')
      vim.cmd('SessiondSwitch trunk')
      t.wait_for_statusline('[trunk:2]')
      vim.fn.cursor(3, 1)
      t.equal('one', vim.fn.getline('.'))
      vim.cmd('SessiondFork! short')
      t.wait_for_statusline('[short:1]')
      t.wait_for_texts({ 'one' })
    end,
  },
  {
    'save names the file and its bytes',
    function()
      t.new('saved')
      vim.cmd('SessiondSay kept')
      t.wait_for_texts({ 'kept' })
      vim.cmd('SessiondSave')
      t.wait_for_message('bytes)')
      local path = t.messages():match('sessiond: (/[^\n]*%.jsonl) %(%d+ bytes%)')
      t.matches('kept', table.concat(vim.fn.readfile(path), '\n'))
    end,
  },
  {
    'a session is saved and left when its buffer goes away',
    function()
      t.new('leaving')
      vim.cmd('SessiondSay kept')
      t.wait_for_texts({ 'kept' })
      local other = t.other()
      vim.cmd('bdelete')
      t.wait('it is left and saved', function()
        local session = t.ask(other, 'session/list', { filter = { name = 'leaving' } }).sessions[1]
        return session.attached == 0 and not session.dirty
      end)
    end,
  },
  {
    'close takes conversation and draft away and keeps what was typed',
    function()
      local id = t.new('closing')
      vim.cmd('SessiondDraft')
      vim.api.nvim_buf_set_lines(0, 0, -1, false, { '書きかけ' })
      vim.cmd('SessiondClose')
      for _, buf in ipairs(vim.fn.getbufinfo({ bufloaded = 1 })) do
        t.equal(nil, buf.name:match(id))
      end
      vim.cmd('SessiondSwitch ' .. id)
      t.wait_for_statusline('[closing:0]')
      t.wait('the draft', function()
        return vim.deep_equal(t.draft(id), { '書きかけ' })
      end)
    end,
  },
  {
    'commands without a session say so',
    function()
      for _, command in ipairs({ 'Say hello', 'Name x', 'Tag x', 'Save', 'Close', 'Fork', 'Archive', 'Older', 'Draft' }) do
        vim.cmd('messages clear')
        vim.cmd('Sessiond' .. command)
        t.wait_for_message('no session: none is open')
      end
      t.equal('', t.statusline())
    end,
  },
  {
    'another filetype takes the maps away',
    function()
      local id = t.new('maps')
      for buf, own in pairs({ [vim.fn.bufnr()] = 'i', [vim.fn.bufadd('sessiond-draft://' .. id)] = '<CR>' }) do
        vim.cmd('buffer ' .. buf)
        t.matches('Sessiond', vim.fn.maparg(own, 'n'))
        vim.cmd('setlocal filetype=text')
        for _, keys in ipairs({ '<CR>', '[[', ']]', 'i', 'O' }) do
          t.equal('', vim.fn.maparg(keys, 'n'), keys)
        end
      end
    end,
  },
  {
    'jumping from message to message',
    function()
      t.new('jump')
      vim.cmd('SessiondSay one')
      vim.cmd('SessiondSay two')
      t.wait_for_texts({ 'one', 'two' })
      for keys, expected in pairs({ ['[['] = 'two', ['[[[['] = 'one', ['[[[[]]'] = 'two' }) do
        vim.cmd('normal G' .. keys)
        t.equal(expected, vim.fn.getline(vim.fn.line('.') + 1), keys)
      end
    end,
  },
  {
    'the status line of its windows shows name and count',
    function()
      t.new('line')
      t.equal('[line:0]', vim.api.nvim_eval_statusline(vim.wo.statusline, {}).str:match('^%S+'))
    end,
  },
}
