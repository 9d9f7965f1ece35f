vim9script
import './help.vim' as t

# Each command does what it says, against a real daemon.

def g:Test_new_shows_an_empty_session_with_name_and_count()
  var id = t.New('first')
  assert_equal('sessiond://' .. id, bufname())
  assert_equal([$'· first ({id})'], getline(1, '$'))
  assert_equal('[first:0]', sessiond#Statusline())
  assert_equal('nofile', &buftype)
  assert_false(&modifiable)
enddef

def g:Test_new_without_a_name_shows_part_of_the_id()
  SessiondNew
  t.Wait('it is shown', () => sessiond#Statusline() =~# '^\[\d\{8}-\d\{6}\%(-\d\+\)\?:0]$')
enddef

def g:Test_say_sends_the_text_as_it_was_typed()
  var id = t.New('say')
  SessiondSay " it's | 100% <q-args> 日本語 😀
  t.WaitForTexts(['" it''s | 100% <q-args> 日本語 😀'])
  assert_match('^▌ user · \d\d\d\d-', getline(2))
  assert_equal('[say:1]', sessiond#Statusline())
  var other = t.Other()
  assert_equal(['" it''s | 100% <q-args> 日本語 😀'], mapnew(t.Ask(other, 'session/read', {sessionId: id}).messages, (_, m) => m.content))
enddef

def g:Test_say_with_a_range_sends_lines_of_any_buffer_to_the_session_used_last()
  var id = t.New('range')
  new
  setline(1, ['def f():', "\treturn '日本'", 'rest'])
  set nomodified
  :1,2SessiondSay what is this?
  t.WaitForTexts(['what is this?', 'def f():', "\treturn '日本'"], bufnr(id))
  :3SessiondSay
  t.WaitForTexts(['what is this?', 'def f():', "\treturn '日本'", 'rest'], bufnr(id))
enddef

def g:Test_the_draft_is_sent_by_say_and_empty_afterwards()
  var id = t.New('typed')
  SessiondDraft
  assert_equal('sessiond-draft://' .. id, bufname())
  assert_equal('[typed:0]', sessiond#Statusline())
  setline(1, ['two', 'lines'])
  execute "normal \<CR>"
  t.WaitForTexts(['two', 'lines'], bufnr('^sessiond://' .. id))
  assert_equal([''], getline(1, '$'))
enddef

def g:Test_completion_knows_all_sessions_with_name_count_time_and_tags()
  var other = t.Other()
  t.Ask(other, 'session/new', {sessionId: 'c-1', name: 'Über 計画', tags: ['work', 'x'], messages: [{role: 'user', content: 'a'}]})
  t.Ask(other, 'session/new', {sessionId: 'c-2', name: 'garden'})
  for n in range(60)
    t.Ask(other, 'session/new', {sessionId: $'many-{n}'})
  endfor
  t.Wait('all are listed', () => len(t.Ask(other, 'session/list', {limit: 500}).sessions) >= 62)
  var found = sessiond#pick#Complete('計画', 'SessiondSwitch 計画', 21)
  assert_equal(1, len(found))
  assert_match('^c-1  Über 計画 · 1 message · \d\d\d\d-\d\d-\d\d \d\d:\d\d · #work #x$', found[0])
  t.Ask(other, 'session/activity', {sessionId: 'c-1', state: 'waiting', waitingFor: 'permission'})
  assert_match('^c-1  Über 計画 · waits: permission · 1 message · ', sessiond#pick#Complete('計画', 'SessiondSwitch 計画', 21)[0])
  t.Ask(other, 'session/activity', {sessionId: 'c-1', state: 'idle'})
  assert_equal(['c-1'], sessiond#pick#Complete('計', 'vert SessiondSwitch #work 計', 29))
  assert_equal(60, len(sessiond#pick#Complete('many', 'SessiondSwitch many', 19)))
  assert_equal(found, getcompletion('SessiondSwitch #work', 'cmdline'))
enddef

def g:Test_long_ids_are_short_and_lead_to_their_session()
  var other = t.Other()
  var long = 'imported-11111111-2222-3333-4444-'
  for end in ['5555aaaa', '5555bbbb', '6']
    t.Ask(other, 'session/new', {sessionId: long .. end, name: 'long ' .. end, messages: [{role: 'user', content: end}]})
  endfor
  t.Ask(other, 'session/new', {sessionId: 'imported-99999999-2222-3333-4444-555555555555', name: 'long 9'})
  t.Wait('all are listed', () => len(t.Ask(other, 'session/list', {filter: {name: 'long '}}).sessions) == 4)
  var found = mapnew(sessiond#pick#Complete('long', 'SessiondSwitch long', 19), (_, line) => split(line)[0])
  assert_equal([long .. '5555a', long .. '5555b', long .. '6', 'imported-99999999-2222-333'], sort(found))
  execute 'SessiondSwitch ' .. long .. '5555b'
  t.WaitForTexts(['5555bbbb'])
enddef

def g:Test_switch_takes_an_id_a_completed_line_or_words()
  var other = t.Other()
  t.Ask(other, 'session/new', {sessionId: 's-1', name: 'alpha plan', messages: [{role: 'user', content: 'one'}]})
  t.Ask(other, 'session/new', {sessionId: 's-2', name: 'beta plan', messages: [{role: 'user', content: 'two'}]})
  t.Wait('both are listed', () => len(t.Ask(other, 'session/list', {filter: {name: ' plan'}}).sessions) == 2)
  SessiondSwitch s-1
  t.WaitForTexts(['one'])
  SessiondSwitch BETA pl
  t.WaitForTexts(['two'])
  SessiondSwitch s-1  alpha plan · 1 message · whenever
  t.WaitForTexts(['one'])
  vertical SessiondSwitch s-2
  t.Wait('a second window', () => winnr('$') == 2)
  t.WaitForTexts(['two'])
  SessiondSwitch no-such-session
  t.WaitForMessage('no-such-session cannot be opened: ')
enddef

def g:Test_a_new_session_takes_the_place_of_conversation_and_draft()
  var first = t.New('first')
  SessiondDraft
  setline(1, 'kept')
  SessiondNew second
  t.Wait('it is shown', () => sessiond#Statusline() ==# '[second:0]')
  # One window, and no draft of another conversation below it.
  assert_equal([bufnr()], tabpagebuflist())
  assert_equal(['kept'], getbufline('sessiond-draft://' .. first, 1, '$'))
  # Beside it all stays.
  SessiondDraft
  vertical SessiondNew third
  t.Wait('it is shown', () => sessiond#Statusline() ==# '[third:0]')
  assert_equal(3, len(tabpagebuflist()))
enddef

def g:Test_switch_with_several_matches_or_nothing_shows_a_menu()
  var other = t.Other()
  t.Ask(other, 'session/new', {sessionId: 'm-1', name: 'menu a'})
  t.Ask(other, 'session/new', {sessionId: 'm-2', name: 'menu b', messages: [{role: 'user', content: 'picked'}]})
  t.Wait('both are listed', () => len(t.Ask(other, 'session/list', {filter: {name: 'menu '}}).sessions) == 2)
  SessiondSwitch menu
  t.Wait('the menu', () => len(popup_list()) == 1)
  var lines = getbufline(winbufnr(popup_list()[0]), 1, '$')
  assert_equal(2, len(lines))
  popup_close(popup_list()[0], indexof(lines, (_, line) => line =~# '^menu b · 1 message · .* · m-2$') + 1)
  t.WaitForTexts(['picked'])
  SessiondSwitch
  t.Wait('the menu', () => len(popup_list()) == 1)
  assert_true(getbufline(winbufnr(popup_list()[0]), 1, '$')->len() >= 2)
  popup_clear(true)
enddef

def g:Test_search_fills_the_quickfix_list_and_an_entry_leads_to_its_message()
  var other = t.Other()
  var messages: list<dict<any>> = mapnew(range(450), (_, n) => ({role: 'user', content: $'line {n}'}))
  messages[3].content = 'the カタツムリ is slow'
  t.Ask(other, 'session/new', {sessionId: 'q-1', name: 'snails', messages: messages})
  t.Wait('it is found', () => t.Ask(other, 'session/search', {query: 'カタツムリ'}).total == 1)
  SessiondSearch カタツムリ
  t.Wait('the list', () => getqflist({title: 0}).title ==# 'sessiond: カタツムリ')
  assert_equal('quickfix', &buftype)
  var [entry] = getqflist()
  assert_equal('snails', entry.module)
  assert_match('^\[user] the カタツムリ is slow$', entry.text)
  cfirst
  t.Wait('the message', () => bufname() ==# 'sessiond://q-1' && getline(line('.') + 1) ==# 'the カタツムリ is slow')
  SessiondSearch nothinglikethis
  t.WaitForMessage('nothing found for nothinglikethis')
  SessiondSearch! カ[タ]ツ
  t.Wait('the list', () => getqflist({title: 0}).title ==# 'sessiond: カ[タ]ツ')
  SessiondSearch! (
  t.WaitForMessage('the search failed: ')
enddef

def g:Test_name_tag_and_archive_change_the_session()
  var id = t.New('before')
  var other = t.Other()
  SessiondName after 後
  t.Wait('the name', () => sessiond#Statusline() ==# '[after 後:0]')
  assert_equal($'· after 後 ({id})', getline(1))
  SessiondTag a +b c
  t.WaitForMessage('tags: a b c')
  SessiondTag -b d
  t.WaitForMessage('tags: a c d')
  assert_equal(['-a', '-c', '-d'], getcompletion('SessiondTag ', 'cmdline'))
  assert_equal(['a', 'c', 'd'], t.Ask(other, 'session/open', {sessionId: id}).session.tags)
  SessiondArchive
  t.WaitForMessage('is archived')
  assert_true(t.Ask(other, 'session/open', {sessionId: id}).session.archived)
  SessiondArchive!
  t.WaitForMessage('is no longer archived')
enddef

def g:Test_fork_copies_all_or_up_to_the_cursor()
  var id = t.New('trunk')
  SessiondSay one
  SessiondSay two
  t.WaitForTexts(['one', 'two'])
  SessiondFork branch
  t.Wait('the fork', () => sessiond#Statusline() ==# '[branch:2]')
  SessiondSwitch trunk
  t.Wait('trunk', () => sessiond#Statusline() ==# '[trunk:2]')
  cursor(3, 1)
  assert_equal('one', getline('.'))
  SessiondFork! short
  t.Wait('the fork', () => sessiond#Statusline() ==# '[short:1]')
  t.WaitForTexts(['one'])
enddef

def g:Test_save_names_the_file_and_its_bytes()
  t.New('saved')
  SessiondSay kept
  t.WaitForTexts(['kept'])
  SessiondSave
  t.WaitForMessage('\.jsonl (\d\+ bytes)')
  var path = matchstr(execute('messages'), '\n\@<=sessiond: \zs.*\.jsonl\ze (\d\+ bytes)')
  assert_match('kept', join(readfile(path)))
enddef

def g:Test_a_session_is_saved_and_left_when_its_buffer_goes_away()
  var id = t.New('leaving')
  SessiondSay kept
  t.WaitForTexts(['kept'])
  var other = t.Other()
  bdelete
  t.Wait('it is left', () => t.Ask(other, 'session/list', {filter: {name: 'leaving'}}).sessions[0].attached == 0)
  t.Wait('it is saved', () => !t.Ask(other, 'session/list', {filter: {name: 'leaving'}}).sessions[0].dirty)
enddef

def g:Test_close_takes_conversation_and_draft_away_and_keeps_what_was_typed()
  var id = t.New('closing')
  SessiondDraft
  setline(1, '書きかけ')
  SessiondClose
  assert_equal([], filter(getbufinfo({bufloaded: true}), (_, buf) => buf.name =~# id))
  execute 'SessiondSwitch' id
  t.Wait('it is back', () => sessiond#Statusline() ==# '[closing:0]')
  t.Wait('the draft', () => getbufline('sessiond-draft://' .. id, 1, '$') == ['書きかけ'])
enddef

def g:Test_commands_without_a_session_say_so()
  for command in ['SessiondSay hello', 'SessiondName x', 'SessiondTag x', 'SessiondSave', 'SessiondClose', 'SessiondFork', 'SessiondArchive', 'SessiondOlder', 'SessiondDraft']
    messages clear
    execute command
    assert_match('no session: none is open', execute('messages'), command)
  endfor
  assert_equal('', sessiond#Statusline())
enddef

def g:Test_another_filetype_takes_the_maps_away()
  var id = t.New('maps')
  for [buf, own] in [[bufnr(), 'i'], [bufadd('sessiond-draft://' .. id), '<CR>']]
    execute 'buffer' buf
    assert_match('Sessiond', maparg(own, 'n'))
    setlocal filetype=text
    for keys in ['<CR>', '[[', ']]', 'i', 'O']
      assert_equal('', maparg(keys, 'n'), keys)
    endfor
  endfor
enddef

def g:Test_jumping_from_message_to_message()
  t.New('jump')
  SessiondSay one
  SessiondSay two
  t.WaitForTexts(['one', 'two'])
  normal [[
  assert_equal('two', getline(line('.') + 1))
  normal [[
  assert_equal('one', getline(line('.') + 1))
  normal ]]
  assert_equal('two', getline(line('.') + 1))
enddef
