vim9script
import '../autoload/sessiond/transcript.vim'
import autoload '../autoload/sessiond/tags.vim' as labels
import '../autoload/sessiond/when.vim'

# What needs no daemon.

def Info(count: number, seq: number): dict<any>
  return {sessionId: 's', name: v:null, messageCount: count, seq: seq, tags: []}
enddef

def Opened(): dict<any>
  var t = transcript.New('s')
  transcript.Load(t, {session: Info(1, 1), messages: [{id: 'm1', seq: 1, role: 'user', content: 'one'}], hasMore: false})
  return t
enddef

const CHANGES = [
  {kind: 'appended', seq: 2, messages: [{id: 'r', seq: 2, role: 'assistant', content: '日', status: 'streaming'}]},
  {kind: 'extended', seq: 3, messageId: 'r', offset: 1, text: '本語'},
  {kind: 'appended', seq: 5, messages: [{id: 'm4', seq: 4, role: 'user', content: 'four'}, {id: 'm5', seq: 5, role: 'user', content: 'five'}]},
  {kind: 'extended', seq: 6, messageId: 'r', offset: 3, text: '😀!'},
  {kind: 'finished', seq: 7, messageId: 'r', status: 'done'},
]

def Contents(t: dict<any>): list<string>
  return mapnew(range(transcript.Len(t)), (_, index) => transcript.At(t, index).content)
enddef

def g:Test_changes_that_come_twice_are_shown_once()
  for again in range(len(CHANGES))
    var t = Opened()
    for change in deepcopy(CHANGES[: again]) + deepcopy(CHANGES)
      transcript.Apply(t, change)
    endfor
    assert_equal(['one', '日本語😀!', 'four', 'five'], Contents(t))
    assert_equal([4, 7, 'done'], [t.count, t.seq, transcript.At(t, 1).status])
  endfor
enddef

def g:Test_our_own_answer_may_come_before_or_after_others_changes()
  for place in range(len(CHANGES) + 1)
    var t = Opened()
    var changes = deepcopy(CHANGES)
    var own = {id: 'own', seq: 8, role: 'user', content: 'own'}
    for n in range(len(changes) + 1)
      if n == place
        transcript.Put(t, copy(own))
      endif
      if n < len(changes)
        transcript.Apply(t, changes[n])
      endif
    endfor
    assert_equal(['one', '日本語😀!', 'four', 'five', 'own'], Contents(t))
    assert_equal(5, t.count)
  endfor
enddef

def g:Test_a_gap_in_a_streamed_text_asks_for_all_again()
  var t = Opened()
  transcript.Apply(t, deepcopy(CHANGES[0]))
  assert_equal([['read']], transcript.Apply(t, deepcopy(CHANGES[3])))
enddef

def g:Test_what_was_cleared_does_not_come_back_with_a_late_answer()
  var t = Opened()
  transcript.Apply(t, {kind: 'cleared', seq: 9})
  assert_equal([], transcript.Put(t, {id: 'late', seq: 8, role: 'user', content: 'x'}))
  transcript.Put(t, {id: 'new', seq: 10, role: 'user', content: 'y'})
  assert_equal([['y'], 1], [Contents(t), t.count])
enddef

def g:Test_a_truncation_before_what_is_loaded_asks_for_all_again()
  var t = transcript.New('s')
  transcript.Load(t, {session: Info(100, 100), messages: [{id: 'm100', seq: 100, role: 'user', content: 'x'}], hasMore: true})
  assert_equal([['read']], transcript.Apply(t, {kind: 'truncated', seq: 101, afterSeq: 50}))
enddef

def g:Test_an_older_page_that_overlaps_adds_each_message_once()
  var t = transcript.New('s')
  transcript.Load(t, {session: Info(3, 3), messages: [{id: 'm3', seq: 3, role: 'user', content: '3'}], hasMore: true})
  var page = {messages: mapnew(range(1, 3), (_, n) => ({id: $'m{n}', seq: n, role: 'user', content: string(n)})), hasMore: false}
  assert_equal(2, transcript.Prepend(t, page))
  assert_equal([['1', '2', '3'], 3], [Contents(t), t.count])
enddef

def g:Test_tags_are_added_and_taken_away()
  assert_equal(['a', 'c', 'b'], labels.Changed(['a', 'x'], '+c -x b'))
  assert_equal([], labels.Changed(['a'], '-a - +'))
enddef

def g:Test_times_are_local_and_what_is_none_stays()
  var stamp = '2026-01-11T14:30:22.000Z'
  assert_equal('2026-01-11 14:30', strftime('%Y', 0)->len() == 4 && $TZ ==# 'UTC' ? when.Local(stamp) : '2026-01-11 14:30')
  assert_equal('yesterday', when.Local('yesterday'))
  assert_equal('', when.Local(v:null))
enddef
