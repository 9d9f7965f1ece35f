vim9script
import './help.vim' as t

# A session of 20,000 messages.

const COUNT = 20000

def g:Test_the_last_screen_comes_at_once_and_the_rest_on_demand()
  var other = t.Other()
  t.Ask(other, 'session/new', {sessionId: 'large', name: 'large'})
  for part in range(2)
    t.Append(other, 'large', mapnew(range(COUNT / 2), (_, n) => ({role: 'user', content: $'message {part * COUNT / 2 + n}'})))
  endfor
  edit sessiond://large
  t.Wait('the end', () => getline(line('$') - 1) ==# $'message {COUNT - 1}')
  assert_equal(200, len(t.Texts()))
  assert_equal('· 19800 older messages: come to this line, or :SessiondOlder', getline(1))
  assert_equal($'[large:{COUNT}]', sessiond#Statusline())

  SessiondOlder
  t.Wait('a page', () => len(t.Texts()) == 400)
  assert_equal(line('$'), line('.'))

  # From the first line the cursor goes on to where it was reading.
  cursor(1, 1)
  doautocmd CursorMoved
  t.Wait('a page', () => len(t.Texts()) == 600)
  assert_match('^▌', getline('.'))
  assert_equal($'message {COUNT - 400}', getline(line('.') + 1))

  # Others may say something meanwhile.
  t.Append(other, 'large', [{role: 'user', content: 'news'}])
  SessiondOlder!
  t.Wait('everything', () => line('$') == 3 * (COUNT + 1) + 1)
  assert_match('^· large', getline(1))
  var texts = t.Texts()
  for n in range(COUNT)
    if texts[n] !=# $'message {n}'
      assert_equal($'message {n}', texts[n])
      break
    endif
  endfor
enddef

def g:Test_a_hit_far_back_is_shown_with_all_that_follows()
  var other = t.Other()
  t.Ask(other, 'session/new', {sessionId: 'far', messages: mapnew(range(5000), (_, n) => ({role: 'user', content: $'message {n}'}))})
  edit sessiond://far@1234
  t.Wait('the message', () => bufname() ==# 'sessiond://far' && getline(line('.') + 1) ==# 'message 1233')
  assert_equal('message 4999', getline(line('$') - 1))
enddef
