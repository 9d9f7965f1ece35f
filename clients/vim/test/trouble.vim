vim9script
import './help.vim' as t

# What goes wrong is told by :messages, and what was typed is still there. $SESSIOND_FAKE runs tests/clients/fake_daemon.py.

const OPENED = {result: {
  session: {sessionId: 'x', name: 'x', messageCount: 0, seq: 0, tags: []},
  messages: [], notes: [], state: {}, hasMore: false, warnings: [],
}}

var logs = 0

# Makes the plugin talk to a fake daemon; where it logs what it is told.
def Fake(answers: dict<any>): string
  logs += 1
  var log = $'{$SESSIOND_RESULT}.{logs}'
  g:sessiond_command = split($SESSIOND_FAKE) + [json_encode(extend({'session/open': OPENED}, answers)), log]
  return log
enddef

def Failing(kind: string, message: string): dict<any>
  return {error: {code: -31005, message: message, data: {kind: kind, hint: 'look at the disk'}}}
enddef

# The messages that a fake daemon was asked to append.
def Appended(log: string): list<dict<any>>
  var appends = filter(readfile(log), (_, line) => line =~# 'session/append')
  return mapnew(appends, (_, line) => json_decode(line).params.messages[0])
enddef

def DraftText(): list<string>
  return getbufline('sessiond-draft://x', 1, '$')
enddef

def OpenX()
  edit sessiond://x
  t.Wait('it is open', () => sessiond#Statusline() ==# '[x:0]')
enddef

def g:Test_no_sessiond_on_the_path()
  g:sessiond_command = 'no-such-sessiond --stdio'
  SessiondNew
  t.WaitForMessage("no new session: program 'no-such-sessiond' not found (install sessiond, or set g:sessiond_command)")
  edit sessiond://x
  SessiondSay これは残る
  t.WaitForMessage("not sent: program")
  assert_equal(['これは残る'], DraftText())
  assert_equal([], sessiond#pick#Complete('', 'SessiondSwitch ', 15))
enddef

def g:Test_no_daemon_can_be_started()
  g:sessiond_command = ['sh', '-c', 'echo "sessiond: the daemon did not start" >&2; exit 69']
  edit sessiond://x
  t.WaitForMessage('no connection: sessiond: the daemon did not start')
  t.Wait('offline', () => sessiond#Statusline() ==# '[x:0 offline]')
  SessiondSay waits
  # Leaving a window is not leaving Vim.
  help
  quit
  assert_match('1 unsent', sessiond#Statusline())
  # Leaving Vim is refused while it is nowhere else.
  doautocmd ExitPre
  assert_equal(['waits'], DraftText())
  assert_true(getbufvar('sessiond-draft://x', '&modified'))
enddef

def g:Test_a_refused_token()
  Fake({initialize: Failing('unauthorized', 'a token is needed')})
  edit sessiond://x
  t.WaitForMessage('the daemon cannot be used: a token is needed (look at the disk)')
  t.Wait('offline', () => sessiond#Statusline() ==# '[x:0 offline]')
  messages clear
  SessiondSay again
  t.WaitForMessage('the daemon cannot be used: a token is needed')
  t.Wait('the text', () => DraftText() == ['again'])
enddef

def g:Test_a_daemon_of_another_protocol()
  Fake({initialize: {result: {capabilities: {}}}})
  edit sessiond://x
  t.WaitForMessage('the daemon cannot be used: it speaks protocol 0, this plugin needs 1 (update sessiond, then run `sessiond stop`)')
enddef

def g:Test_a_read_only_disk()
  Fake({'session/append': Failing('readOnly', 'the disk is full'), 'state/set': Failing('readOnly', 'the disk is full')})
  OpenX()
  SessiondSay 一行目
  t.WaitForMessage('not sent: the disk is full (look at the disk)')
  assert_equal(['一行目'], DraftText())
  SessiondSay two
  t.Wait('both are kept', () => DraftText() == ['two', '', '一行目'])
  t.WaitForMessage('the draft could not be saved: the disk is full')
  SessiondClose
  t.WaitForMessage('not closed: the daemon could not keep what you typed')
  assert_equal(['two', '', '一行目'], DraftText())
  SessiondClose!
  assert_equal([], DraftText())
enddef

def g:Test_a_session_that_cannot_be_read_says_why_it_takes_no_message()
  Fake({'session/open': Failing('badFile', 'line 3 is broken')})
  edit sessiond://x
  t.WaitForMessage('x cannot be opened: line 3 is broken (look at the disk)')
  SessiondSay hello
  t.WaitForMessage('not sent: line 3 is broken (look at the disk)')
  assert_equal(['hello'], DraftText())
enddef

def g:Test_a_draft_that_is_equal_to_the_last_message_comes_back_unless_it_was_sent_from_here()
  var opened = deepcopy(OPENED)
  opened.result.messages = [{id: 'm', seq: 1, role: 'user', content: 'continue'}]
  opened.result.session.messageCount = 1
  opened.result.session.seq = 1
  opened.result.state = {'draft:vim': 'continue'}
  var taken = {result: {messages: [{id: 'n', seq: 2}]}}
  var log = Fake({'session/open': opened, 'session/append': taken, 'state/set': v:null})
  edit sessiond://x
  t.Wait('it is open', () => sessiond#Statusline() ==# '[x:1]')
  assert_equal(['continue'], DraftText())
  SessiondDraft
  SessiondSay
  t.Wait('it is sent', () => len(Appended(log)) == 1 && sessiond#Statusline() ==# '[x:2]')
  # As if the connection had been lost before the draft was removed.
  for relay in job_info()
    job_stop(relay, 'kill')
  endfor
  t.WaitForMessage('reconnected')
  t.Wait('it is open again', () => sessiond#Statusline() ==# '[x:1]')
  assert_equal([''], DraftText())
enddef

def g:Test_a_message_that_is_longer_than_the_daemon_takes_is_refused_at_once()
  var ours = {protocolVersion: 1, limits: {messageBytes: 1000}}
  var log = Fake({initialize: {result: {capabilities: {experimental: {sessiond: ours}}}}})
  OpenX()
  var long = repeat('é', 500)
  execute 'SessiondSay' long
  t.WaitForMessage('not sent: this is longer than the 1000 bytes that the daemon takes at once (send it in parts)')
  assert_equal([long], DraftText())
  assert_equal('[x:0]', sessiond#Statusline())
  assert_equal([], Appended(log))
  assert_notmatch('was lost', execute('messages'))
enddef

def g:Test_a_draft_of_a_session_that_is_deleted_covers_no_other_message()
  var log = Fake({'state/set': Failing('sessionNotFound', 'no session'), 'session/update': Failing('readOnly', 'the disk is full')})
  OpenX()
  SessiondDraft
  setline(1, 'typed')
  doautocmd TextChanged
  SessiondName later
  t.WaitForMessage('not changed: the disk is full')
  assert_equal(1, len(filter(readfile(log), (_, line) => line =~# 'state/set')))
  assert_notmatch('the draft could not be saved', execute('messages'))
  assert_equal(['typed'], DraftText())
  assert_true(getbufvar('sessiond-draft://x', '&modified'))
enddef

def g:Test_a_message_whose_fate_is_unknown_is_sent_again_under_its_id()
  var log = Fake({'session/append': Failing('indeterminate', 'the disk failed')})
  OpenX()
  SessiondSay once
  t.WaitForMessage('not sent: the disk failed')
  SessiondSay
  t.Wait('it is sent again', () => len(Appended(log)) == 2)
  assert_equal(Appended(log)[0], Appended(log)[1])
enddef

def g:Test_what_came_back_leaves_the_draft_when_it_is_seen_and_otherwise_keeps_its_id()
  var log = Fake({'session/append': Failing('indeterminate', 'the disk failed')})
  OpenX()
  SessiondSay not there
  t.Wait('it came back', () => DraftText() == ['not there'])
  SessiondSay there
  t.Wait('it came back too', () => DraftText() == ['there', '', 'not there'])
  var opened = deepcopy(OPENED)
  opened.result.messages = [extend({seq: 1}, Appended(log)[1])]
  var again = Fake({'session/open': opened, 'session/append': {result: {messages: [{id: 'n', seq: 2}]}}, 'state/set': v:null})
  for relay in job_info()
    job_stop(relay, 'kill')
  endfor
  t.Wait('what is there left the draft', () => DraftText() == ['not there'])
  t.WaitForMessage('reconnected')
  setbufline('sessiond-draft://x', 2, ['', 'more'])
  SessiondSay
  t.Wait('the rest is sent', () => len(Appended(again)) == 2)
  assert_equal(Appended(log)[0], Appended(again)[0])
  assert_equal('more', Appended(again)[1].content)
  SessiondSay there
  t.Wait('the same words again', () => len(Appended(again)) == 3)
  assert_notequal(Appended(log)[1].id, Appended(again)[2].id)
enddef

def g:Test_what_comes_back_leaves_the_cursor_in_what_is_being_typed()
  Fake({'session/append': Failing('readOnly', 'the disk is full')})
  OpenX()
  SessiondDraft
  setline(1, 'hel')
  SessiondSay first
  t.Wait('it came back', () => DraftText() == ['first', '', 'hel'])
  assert_equal(3, line('.'))
enddef

def g:Test_an_earlier_draft_comes_back_once_before_what_was_typed_meanwhile()
  var opened = deepcopy(OPENED)
  opened.result.state = {'draft:vim': 'yesterday'}
  Fake({'session/open': opened, 'state/set': v:null})
  edit sessiond://x
  SessiondDraft
  setline(1, 'today')
  t.Wait('both are there', () => DraftText() == ['yesterday', '', 'today'])
  # Deleted while the daemon is away: it was deleted here, so the daemon's text is the older one.
  for relay in job_info()
    job_stop(relay, 'kill')
  endfor
  t.WaitForMessage('was lost')
  deletebufline('sessiond-draft://x', 1, '$')
  t.WaitForMessage('reconnected')
  t.Wait('it is open again', () => sessiond#Statusline() ==# '[x:0]')
  assert_equal([''], DraftText())
enddef

def g:Test_what_waits_is_sent_when_the_buffer_goes_away_before_the_session_is_open_again()
  t.New('left')
  var log = Fake({'session/open': v:null})
  for relay in job_info()
    job_stop(relay, 'kill')
  endfor
  t.Wait('it is noticed', () => sessiond#Statusline() ==# '[left:0 offline]')
  SessiondSay 待っている
  t.Wait('it is opened again', () => sessiond#Statusline() ==# '[left:0 … 1 unsent]')
  bdelete!
  t.Wait('it is sent', () => mapnew(Appended(log), (_, message) => message.content) == ['待っている'])
enddef

def g:Test_a_silent_daemon_does_not_stop_vim()
  Fake({'session/list': v:null, 'state/set': v:null})
  OpenX()
  SessiondDraft
  setline(1, 'typed')
  assert_equal([], sessiond#pick#Complete('', 'SessiondSwitch ', 15))
  SessiondClose
  t.WaitForMessage('not closed')
enddef

def g:Test_answers_that_make_no_sense_are_passed_over()
  g:sessiond_command = ['sh', '-c', 'printf "Content-Length: 2\r\n\r\n[]Content-Length: 33\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"nope\"}"; cat >/dev/null']
  edit sessiond://x
  sleep 200m
  assert_equal('[x:0 …]', sessiond#Statusline())
enddef
