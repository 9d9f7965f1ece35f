vim9script
import './help.vim' as t

# The relay or the daemon dies under an open buffer.

def g:Test_after_a_killed_relay_nothing_is_missing_or_shown_twice()
  var id = t.New('relay')
  SessiondSay one
  t.WaitForTexts(['one'])
  var relays = job_info()
  var other = t.Other()
  t.Append(other, id, [{id: 'r', role: 'assistant', content: 'begun', status: 'streaming'}])
  t.WaitForTexts(['one', 'begun'])
  for relay in relays
    job_stop(relay, 'kill')
  endfor
  t.Append(other, id, [{role: 'user', content: 'missed'}])
  t.Ask(other, 'session/extend', {sessionId: id, messageId: 'r', text: ' and ended'})
  t.Ask(other, 'session/finish', {sessionId: id, messageId: 'r'})
  t.Ask(other, 'session/update', {sessionId: id, name: 'renamed'})
  t.WaitForTexts(['one', 'begun and ended', 'missed'])
  t.Wait('the name', () => sessiond#Statusline() ==# '[renamed:3]')
  t.Append(other, id, [{role: 'user', content: 'live again'}])
  t.WaitForTexts(['one', 'begun and ended', 'missed', 'live again'])
  assert_match('reconnected', execute('messages'))
enddef

def g:Test_after_a_killed_daemon_nothing_is_missing_or_shown_twice()
  var id = t.New('daemon')
  SessiondSay one
  t.WaitForTexts(['one'])
  var other = t.Other()
  t.Append(other, id, [{id: 'r', role: 'assistant', content: 'cut', status: 'streaming'}])
  t.WaitForTexts(['one', 'cut'])
  t.KillDaemon(other)
  t.Wait('it is noticed', () => sessiond#Statusline() ==# '[daemon:2 offline]')
  SessiondSay 留守の間に
  assert_equal('[daemon:2 offline 1 unsent]', sessiond#Statusline())
  t.WaitForTexts(['one', 'cut', '留守の間に'])
  t.Wait('the reply is cut off', () => t.Heads()[1] =~# ' · interrupted$')
  assert_equal('[daemon:3]', sessiond#Statusline())
  var fresh = t.Other()
  assert_equal(['one', 'cut', '留守の間に'], mapnew(t.Ask(fresh, 'session/read', {sessionId: id}).messages, (_, m) => m.content))
  t.Append(fresh, id, [{role: 'user', content: 'live again'}])
  t.WaitForTexts(['one', 'cut', '留守の間に', 'live again'])
enddef

def g:Test_a_large_message_to_a_daemon_that_stands_still_does_not_stop_vim()
  var other = t.Other()
  var id = t.New('large')
  var pid = t.Ask(other, 'daemon/hello', {}).pid
  var text = repeat('0123456789', 100000)
  system($'kill -STOP {pid}')
  try
    # More than all pipes and sockets on the way take.
    execute 'SessiondSay' text
    assert_match('1 unsent', sessiond#Statusline())
    SessiondName typed on meanwhile
  finally
    system($'kill -CONT {pid}')
  endtry
  t.Wait('it is there', () => t.Ask(other, 'session/read', {sessionId: id}).messages->len() == 1)
  assert_equal(text, t.Ask(other, 'session/read', {sessionId: id}).messages[0].content)
  t.Wait('the name', () => sessiond#Statusline() ==# '[typed on meanwhile:1]')
enddef

def g:Test_all_open_sessions_are_caught_up()
  var bufs: list<number> = []
  var ids: list<string> = []
  for n in range(3)
    add(ids, t.New($'all{n}'))
    add(bufs, bufnr())
  endfor
  var other = t.Other()
  t.KillDaemon(other)
  t.Wait('it is noticed', () => sessiond#Statusline() =~# 'offline')
  var fresh = t.Other()
  for id in ids
    t.Append(fresh, id, [{role: 'user', content: 'in ' .. id}])
  endfor
  for n in range(3)
    t.WaitForTexts(['in ' .. ids[n]], bufs[n])
  endfor
enddef
