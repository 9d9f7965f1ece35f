vim9script
# Answers what an agent asks: in the session of this buffer, or else in one that waits for you.

import autoload './client.vim'
import autoload './pick.vim'
import autoload './say.vim'

const PAGE = 1000
const MENU_ROWS = 20

# `here` is the id of this buffer's session, or empty. Without an answer the user is asked for it.
export def Answer(here: string, answer: string)
  client.Request('session/list', {limit: PAGE, filter: {activity: 'waiting'}}, (error, page) => {
    if !empty(error)
      say.Error('cannot list the sessions', error)
      return
    endif
    var asked = filter(page.sessions, (_, session) => has_key(session.activity, 'question'))
    var own = filter(copy(asked), (_, session) => session.sessionId ==# here)
    if empty(asked)
      say.Info('nothing is asked in any session')
    elseif !empty(own) || len(asked) == 1
      Ask(get(own, 0, asked[0]), answer)
    else
      pick.Menu(asked, (id) => Ask(filter(copy(asked), (_, session) => session.sessionId ==# id)[0], answer))
    endif
  })
enddef

def Ask(session: any, answer: string)
  var question = session.activity.question
  var choices = get(question, 'choices', [])
  if empty(choices)
    var text = answer ==# '' ? input(Words(session) .. ' ') : answer
    if text !=# ''
      Send(session, {text: text})
    endif
  elseif answer ==# ''
    popup_menu(mapnew(choices, (_, choice) => Printable(choice.label)), {
      title: ' ' .. Words(session) .. ' ',
      maxheight: MENU_ROWS,
      callback: (_, chosen) => chosen > 0 ? Send(session, {choice: choices[chosen - 1].id}) : 0,
    })
  else
    Choose(session, choices, answer)
  endif
enddef

# The choice that has this id or label.
def Choose(session: any, choices: list<any>, answer: string)
  for Named in [(choice) => choice.id, (choice) => choice.label]
    var found = filter(copy(choices), (_, choice) => Named(choice) ==? answer)
    if len(found) == 1
      Send(session, {choice: found[0].id})
      return
    endif
  endfor
  say.Error('not answered', {message: answer .. ' cannot be chosen', hint: join(mapnew(choices, (_, choice) => choice.id), ', ')})
enddef

def Send(session: any, answer: dict<string>)
  var params = extend({sessionId: session.sessionId, questionId: session.activity.question.id}, answer)
  client.Request('session/answer', params, (error, answered) => {
    if !empty(error)
      say.Error('not answered', error)
    elseif !answered.accepted
      say.Info('this was answered before, or it is not asked any more')
    endif
  })
enddef

# What is asked, and by whom.
def Words(session: any): string
  return Printable(session.activity.client .. ': ' .. get(session.activity, 'text', get(session.activity, 'waitingFor', '?')))
enddef

def Printable(text: string): string
  return substitute(text, '[[:cntrl:]]\+', ' ', 'g')
enddef
