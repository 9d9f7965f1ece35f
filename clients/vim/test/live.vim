vim9script
import './help.vim' as t

# A session that others write to while it is shown.

def Extend(other: dict<any>, id: string, message: string, text: string)
  t.Ask(other, 'session/extend', {sessionId: id, messageId: message, text: text})
enddef

def g:Test_another_vim_keeps_its_part_of_the_draft()
  var id = t.New('two')
  var buf = bufnr()
  var other = t.Other()
  t.Ask(other, 'session/open', {sessionId: id})
  var Draft = () => get(t.Ask(other, 'state/get', {sessionId: id}).values, 'draft:vim', '')
  t.Ask(other, 'state/set', {sessionId: id, values: {'draft:vim': 'a long thought'}})
  t.Append(other, id, [{role: 'assistant', content: 'heard'}])
  t.Wait('heard', () => sessiond#Statusline(buf) =~# ':1')
  SessiondDraft
  setline(1, 'hi')
  doautocmd TextChanged
  t.Wait('both are kept', () => Draft() ==# "a long thought\n\nhi")
  t.Wait('that is known', () => !&modified)
  SessiondSay
  t.Wait('ours was sent', () => Draft() ==# 'a long thought')
  assert_equal([''], getline(1, '$'))
enddef

def g:Test_both_sides_see_each_other_at_once()
  var id = t.New('both')
  var other = t.Other()
  t.Ask(other, 'session/open', {sessionId: id})
  t.Append(other, id, [{role: 'user', content: "from the other\nside"}, {role: 'assistant', content: ''}])
  t.WaitForTexts(['from the other', 'side'])
  SessiondSay von hier
  t.Wait('the other hears it', () => indexof(other.heard, (_, one) => one[0] ==# 'session/changed' && one[1].changes[0].messages[0].content ==# 'von hier') >= 0)
  t.WaitForTexts(['from the other', 'side', 'von hier'])
  assert_equal('[both:3]', sessiond#Statusline())
enddef

def g:Test_a_streamed_reply_grows_by_code_points()
  var id = t.New('stream')
  var other = t.Other()
  t.Append(other, id, [{id: 'r', role: 'assistant', content: '日', status: 'streaming'}])
  t.Wait('it begins', () => t.Texts() == ['日'] && t.Heads()[0] =~# ' · …$')
  Extend(other, id, 'r', "本\n😀")
  t.WaitForTexts(['日本', '😀'])
  Extend(other, id, 'r', "👩‍💻é\n\nlast")
  t.WaitForTexts(['日本', '😀👩‍💻é', 'last'])
  t.Ask(other, 'session/finish', {sessionId: id, messageId: 'r', toolCalls: [{id: 'c', name: 'ls', arguments: {path: '/'}}]})
  t.WaitForTexts(['日本', '😀👩‍💻é', 'last', '→ ls({"path":"/"})'])
  assert_notmatch('…', t.Heads()[0])
enddef

def g:Test_a_reply_that_is_cut_off_says_so_and_what_came_stays()
  var id = t.New('cut')
  var other = t.Other()
  t.Append(other, id, [{id: 'r', role: 'assistant', content: 'Once', status: 'streaming'}])
  Extend(other, id, 'r', ' upon')
  t.WaitForTexts(['Once upon'])
  job_stop(other.job, 'kill')
  t.Wait('it is interrupted', () => t.Heads()[0] =~# ' · interrupted$')
  t.WaitForTexts(['Once upon'])
  assert_equal('[cut:1]', sessiond#Statusline())
enddef

def g:Test_two_replies_stream_at_once_and_messages_come_in_between()
  var id = t.New('two')
  var one = t.Other()
  var two = t.Other()
  t.Append(one, id, [{id: 'r1', role: 'assistant', content: 'a', status: 'streaming'}])
  t.Append(two, id, [{id: 'r2', role: 'assistant', content: 'x', status: 'streaming'}])
  SessiondSay between
  t.WaitForTexts(['a', 'x', 'between'])
  for n in range(30)
    Extend(one, id, 'r1', n % 10 == 9 ? $"{n}\n" : string(n))
    Extend(two, id, 'r2', '-')
  endfor
  t.WaitForTexts(['a0123456789', '10111213141516171819', '20212223242526272829', 'x' .. repeat('-', 30), 'between'])
enddef

def g:Test_windows_at_the_end_follow_and_others_stay()
  var id = t.New('follow')
  var other = t.Other()
  t.Append(other, id, mapnew(range(30), (_, n) => ({role: 'user', content: $'m{n}'})))
  t.Wait('they are shown', () => len(t.Texts()) == 30)
  assert_equal(line('$'), line('.'))
  split
  cursor(5, 1)
  var text = getline('.')
  t.Append(other, id, [{role: 'user', content: 'news'}])
  t.Wait('it is shown', () => len(t.Texts()) == 31)
  assert_equal([5, text], [line('.'), getline('.')])
  wincmd j
  assert_equal(line('$'), line('.'))
  only
enddef

def g:Test_names_clears_and_truncations_of_others_are_shown()
  var id = t.New('many')
  var other = t.Other()
  t.Append(other, id, mapnew(range(6), (_, n) => ({role: 'user', content: $'m{n}'})))
  t.Wait('they are shown', () => len(t.Texts()) == 6)
  t.Ask(other, 'session/truncate', {sessionId: id, afterSeq: 4})
  t.WaitForTexts(['m0', 'm1', 'm2', 'm3'])
  t.Ask(other, 'session/update', {sessionId: id, name: '改名'})
  t.Wait('the name', () => sessiond#Statusline() ==# '[改名:4]')
  t.Ask(other, 'session/clear', {sessionId: id})
  t.Wait('nothing is left', () => sessiond#Statusline() ==# '[改名:0]' && empty(t.Heads()))
  SessiondSay again
  t.WaitForTexts(['again'])
enddef

def g:Test_a_session_deleted_by_somebody_else_keeps_its_text_and_what_is_said()
  var id = t.New('doomed')
  SessiondSay kept
  t.WaitForTexts(['kept'])
  var other = t.Other()
  t.Ask(other, 'session/delete', {sessionId: id})
  t.WaitForMessage('was deleted by somebody else')
  assert_equal('[doomed:1 gone]', sessiond#Statusline())
  SessiondSay 消えないで
  t.WaitForMessage('not sent: ')
  assert_equal(['消えないで'], getbufline('sessiond-draft://' .. id, 1, '$'))
  assert_equal(['kept'], t.Texts())
enddef

def g:Test_a_session_moved_by_somebody_else_is_said_to_be_elsewhere()
  var id = t.New('mover')
  SessiondSay kept
  t.WaitForTexts(['kept'])
  var other = t.Other()
  var folder = tempname()
  mkdir(folder)
  t.Ask(other, 'store/adopt', {path: folder, name: 'shelf', format: 'jsonl'})
  t.Ask(other, 'session/move', {sessionId: id, store: 'shelf'})
  t.WaitForMessage($'was moved by somebody else; `:SessiondSwitch shelf/{id}`')
  execute 'SessiondSwitch shelf/' .. id
  t.WaitForTexts(['kept'])
enddef

def g:Test_a_session_that_was_deleted_and_restored_is_open_again_when_it_is_shown_or_spoken_to()
  var id = t.New('back')
  var other = t.Other()
  def ComeAndGo()
    t.Ask(other, 'session/delete', {sessionId: id})
    t.Wait('it is gone', () => sessiond#Statusline() =~# 'gone')
    t.Ask(other, 'session/restore', {sessionId: id})
  enddef
  ComeAndGo()
  SessiondSay one
  t.WaitForTexts(['one'])
  ComeAndGo()
  execute 'SessiondSwitch' id
  t.Wait('it is open', () => sessiond#Statusline() ==# '[back:1]')
  t.Append(other, id, [{role: 'user', content: 'two'}])
  t.WaitForTexts(['one', 'two'])
enddef

def g:Test_blocks_thinking_and_control_characters_are_shown_as_text()
  var id = t.New('blocks')
  var other = t.Other()
  var blocks = [{type: 'text', text: "one\ntwo"}, {type: 'image', source: {data: 'x'}}]
  t.Append(other, id, [{role: 'assistant', thinking: "let me\nsee", content: blocks}])
  t.Append(other, id, [{role: "to\nol", toolCallId: 'c1', content: "a\rb\tc"}])
  t.WaitForTexts(['> let me', '> see', 'one', 'two', '{"source":{"data":"x"},"type":"image"}', "a\rb\tc"])
  assert_match('^▌ to ol · result of c1 · ', t.Heads()[1])
enddef

def g:Test_text_that_looks_like_a_head_moves_nothing()
  var id = t.New('heads')
  var other = t.Other()
  t.Append(other, id, [{id: 'r', role: 'assistant', content: "▌ user · 2026\nx", status: 'streaming'}, {role: 'user', content: 'y'}])
  t.WaitForTexts(['x', 'y'])
  Extend(other, id, 'r', '!')
  t.WaitForTexts(['x!', 'y'])
enddef

def g:Test_hidden_buffers_follow_too()
  var id = t.New('hidden')
  var buf = bufnr()
  t.New('shown')
  var other = t.Other()
  t.Append(other, id, [{role: 'user', content: 'while away'}])
  t.WaitForTexts(['while away'], buf)
  execute 'buffer' buf
  assert_equal('[hidden:1]', sessiond#Statusline())
enddef
