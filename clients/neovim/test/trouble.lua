-- What goes wrong is told by :messages, and what was typed is still there. $SESSIOND_FAKE runs tests/clients/fake_daemon.py.
local t = require('help')
local client = require('sessiond.client')

local OPENED = {
  result = {
    session = { sessionId = 'x', name = 'x', messageCount = 0, seq = 0, tags = {} },
    messages = {}, notes = {}, state = vim.empty_dict(), hasMore = false, warnings = {},
  },
}

local logs = 0

-- Makes the plugin talk to a fake daemon; where it logs what it is told.
local function fake(answers)
  logs = logs + 1
  local log = vim.env.SESSIOND_RESULT .. '.' .. logs
  local all = vim.json.encode(vim.tbl_extend('force', { ['session/open'] = OPENED }, answers))
  client.config.command = vim.list_extend(vim.split(vim.env.SESSIOND_FAKE, ' '), { all, log })
  return log
end

local function failing(kind, message)
  return { error = { code = -31005, message = message, data = { kind = kind, hint = 'look at the disk' } } }
end

-- The messages that a fake daemon was asked to append.
local function appended(log)
  local messages = {}
  for _, line in ipairs(vim.fn.readfile(log)) do
    local message = vim.json.decode(line)
    if message.method == 'session/append' then
      messages[#messages + 1] = message.params.messages[1]
    end
  end
  return messages
end

local function open_x()
  vim.cmd('edit sessiond://x')
  t.wait_for_statusline('[x:0]')
end

local function draft_is(expected)
  t.wait('the draft ' .. vim.inspect(expected), function()
    return vim.deep_equal(t.draft('x'), expected)
  end)
end

return {
  {
    'no sessiond on the path',
    function()
      client.config.command = 'no-such-sessiond --stdio'
      vim.cmd('SessiondNew')
      t.wait_for_message("no new session: program 'no-such-sessiond' not found (install sessiond, or require('sessiond').setup(")
      vim.cmd('edit sessiond://x')
      vim.cmd('SessiondSay これは残る')
      t.wait_for_message('not sent: program')
      draft_is({ 'これは残る' })
      t.equal({}, require('sessiond.pick').complete('', 'SessiondSwitch ', 15))
    end,
  },
  {
    'no daemon can be started',
    function()
      client.config.command = { 'sh', '-c', 'echo "sessiond: the daemon did not start" >&2; exit 69' }
      vim.cmd('edit sessiond://x')
      t.wait_for_message('no connection: no daemon could be reached or started (run `sessiond doctor`)')
      t.wait_for_statusline('[x:0 offline]')
      vim.cmd('SessiondSay waits')
      -- Leaving a window is not leaving Neovim.
      vim.cmd('help')
      vim.cmd('quit')
      t.matches('1 unsent', t.statusline())
      -- Leaving Neovim is refused while it is nowhere else.
      vim.cmd('doautocmd ExitPre')
      draft_is({ 'waits' })
      t.equal(true, vim.bo[vim.fn.bufadd('sessiond-draft://x')].modified)
    end,
  },
  {
    'a refused token',
    function()
      fake({ initialize = failing('unauthorized', 'a token is needed') })
      vim.cmd('edit sessiond://x')
      t.wait_for_message('the daemon cannot be used: a token is needed (look at the disk)')
      t.wait_for_statusline('[x:0 offline]')
      vim.cmd('messages clear')
      vim.cmd('SessiondSay again')
      t.wait_for_message('the daemon cannot be used: a token is needed')
      draft_is({ 'again' })
    end,
  },
  {
    'a daemon of another protocol',
    function()
      fake({ initialize = { result = { capabilities = vim.empty_dict() } } })
      vim.cmd('edit sessiond://x')
      t.wait_for_message('the daemon cannot be used: it speaks protocol 0, this plugin needs 1 (update sessiond, then run `sessiond stop`)')
    end,
  },
  {
    'a read-only disk',
    function()
      local full = failing('readOnly', 'the disk is full')
      fake({ ['session/append'] = full, ['state/set'] = full })
      open_x()
      vim.cmd('SessiondSay 一行目')
      t.wait_for_message('not sent: the disk is full (look at the disk)')
      draft_is({ '一行目' })
      vim.cmd('SessiondSay two')
      draft_is({ 'two', '', '一行目' })
      t.wait_for_message('the draft could not be saved: the disk is full')
      vim.cmd('SessiondClose')
      t.wait_for_message('not closed: the daemon could not keep what you typed')
      draft_is({ 'two', '', '一行目' })
      vim.cmd('SessiondClose!')
      draft_is({})
    end,
  },
  {
    'a session that cannot be read says why it takes no message',
    function()
      fake({ ['session/open'] = failing('badFile', 'line 3 is broken') })
      vim.cmd('edit sessiond://x')
      t.wait_for_message('x cannot be opened: line 3 is broken (look at the disk)')
      vim.cmd('SessiondSay hello')
      t.wait_for_message('not sent: line 3 is broken (look at the disk)')
      draft_is({ 'hello' })
    end,
  },
  {
    'a draft that is equal to the last message comes back, unless it was sent from here',
    function()
      local opened = vim.deepcopy(OPENED)
      opened.result.messages = { { id = 'm', seq = 1, role = 'user', content = 'continue' } }
      opened.result.session.messageCount, opened.result.session.seq = 1, 1
      opened.result.state = { ['draft:neovim'] = 'continue' }
      local answers = { ['session/append'] = { result = { messages = { { id = 'n', seq = 2 } } } } }
      answers['session/open'], answers['state/set'] = opened, vim.NIL
      local log = fake(answers)
      vim.cmd('edit sessiond://x')
      t.wait_for_statusline('[x:1]')
      draft_is({ 'continue' })
      vim.cmd('SessiondDraft')
      vim.cmd('SessiondSay')
      t.wait('it is sent', function()
        return #appended(log) == 1 and t.statusline() == '[x:2]'
      end)
      -- As if the connection had been lost before the draft was removed.
      client.abandon()
      t.wait_for_message('reconnected')
      t.wait_for_statusline('[x:1]')
      draft_is({ '' })
    end,
  },
  {
    'a message that is longer than the daemon takes is refused at once',
    function()
      local ours = { protocolVersion = 1, limits = { messageBytes = 1000 } }
      local log = fake({ initialize = { result = { capabilities = { experimental = { sessiond = ours } } } } })
      open_x()
      local long = ('é'):rep(500)
      vim.cmd('SessiondSay ' .. long)
      t.wait_for_message('not sent: this is longer than the 1000 bytes that the daemon takes at once (send it in parts)')
      draft_is({ long })
      t.wait_for_statusline('[x:0]')
      t.equal({}, appended(log))
      t.equal(nil, t.messages():find('was lost', 1, true))
    end,
  },
  {
    'a draft of a session that is deleted covers no other message',
    function()
      local log = fake({
        ['state/set'] = failing('sessionNotFound', 'no session'),
        ['session/update'] = failing('readOnly', 'the disk is full'),
      })
      open_x()
      vim.cmd('SessiondDraft')
      vim.fn.setline(1, 'typed')
      vim.cmd('doautocmd TextChanged')
      vim.cmd('SessiondName later')
      t.wait_for_message('not changed: the disk is full')
      local stored = vim.tbl_filter(function(line)
        return line:find('state/set', 1, true) ~= nil
      end, vim.fn.readfile(log))
      t.equal(1, #stored)
      t.equal(nil, t.messages():find('the draft could not be saved', 1, true))
      draft_is({ 'typed' })
      t.equal(true, vim.bo[vim.fn.bufadd('sessiond-draft://x')].modified)
    end,
  },
  {
    'a message whose fate is unknown is sent again under its id',
    function()
      local log = fake({ ['session/append'] = failing('indeterminate', 'the disk failed') })
      open_x()
      vim.cmd('SessiondSay once')
      t.wait_for_message('not sent: the disk failed')
      vim.cmd('SessiondSay')
      t.wait('it is sent again', function()
        return #appended(log) == 2
      end)
      t.equal(appended(log)[1], appended(log)[2])
    end,
  },
  {
    'what came back leaves the draft when it is seen, and otherwise keeps its id',
    function()
      local log = fake({ ['session/append'] = failing('indeterminate', 'the disk failed') })
      open_x()
      vim.cmd('SessiondSay not there')
      draft_is({ 'not there' })
      vim.cmd('SessiondSay there')
      draft_is({ 'there', '', 'not there' })
      local open = vim.deepcopy(OPENED)
      open.result.messages = { vim.tbl_extend('force', appended(log)[2], { seq = 1 }) }
      local taken = { result = { messages = { { id = 'n', seq = 2 } } } }
      local again = fake({ ['session/open'] = open, ['session/append'] = taken, ['state/set'] = vim.NIL })
      client.abandon()
      draft_is({ 'not there' })
      t.wait_for_message('reconnected')
      vim.api.nvim_buf_set_lines(vim.fn.bufadd('sessiond-draft://x'), 1, -1, false, { '', 'more' })
      local function say(text, count)
        vim.cmd('SessiondSay ' .. text)
        t.wait('it is sent', function()
          return #appended(again) == count
        end)
      end
      say('', 2)
      t.equal(appended(log)[1], appended(again)[1])
      t.equal('more', appended(again)[2].content)
      say('there', 3)
      t.equal(false, appended(log)[2].id == appended(again)[3].id)
    end,
  },
  {
    'what comes back leaves the cursor in what is being typed',
    function()
      fake({ ['session/append'] = failing('readOnly', 'the disk is full') })
      open_x()
      vim.cmd('SessiondDraft')
      vim.fn.setline(1, 'hel')
      vim.cmd('SessiondSay first')
      draft_is({ 'first', '', 'hel' })
      t.equal(3, vim.fn.line('.'))
    end,
  },
  {
    'an earlier draft comes back once, before what was typed meanwhile',
    function()
      local open = vim.deepcopy(OPENED)
      open.result.state = { ['draft:neovim'] = 'yesterday' }
      fake({ ['session/open'] = open, ['state/set'] = vim.NIL })
      vim.cmd('edit sessiond://x')
      vim.cmd('SessiondDraft')
      vim.fn.setline(1, 'today')
      draft_is({ 'yesterday', '', 'today' })
      -- Deleted while the daemon is away: it was deleted here, so the daemon's text is the older one.
      client.abandon()
      t.wait_for_message('was lost')
      vim.api.nvim_buf_set_lines(vim.fn.bufadd('sessiond-draft://x'), 0, -1, false, {})
      t.wait_for_message('reconnected')
      t.wait_for_statusline('[x:0]')
      draft_is({ '' })
    end,
  },
  {
    'what waits is sent when the buffer goes away before the session is open again',
    function()
      t.new('left')
      local log = fake({ ['session/open'] = vim.NIL })
      client.abandon()
      t.wait_for_statusline('[left:0 offline]')
      vim.cmd('SessiondSay 待っている')
      t.wait_for_statusline('[left:0 … 1 unsent]')
      vim.cmd('bdelete!')
      t.wait('it is sent', function()
        local messages = appended(log)
        return #messages == 1 and messages[1].content == '待っている'
      end)
    end,
  },
  {
    'a silent daemon does not stop Neovim',
    function()
      fake({ ['session/list'] = vim.NIL, ['state/set'] = vim.NIL })
      open_x()
      vim.cmd('SessiondDraft')
      vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'typed' })
      vim.fn.getcompletion('SessiondSwitch ', 'cmdline')
      vim.cmd('SessiondClose')
      t.wait_for_message('not closed')
    end,
  },
}
