vim9script
# Our messages: each waits in its room's outbox until it is durable.
#
# An entry is {text, message}. The message has our own id, so that it may be sent again after a lost answer: the daemon takes it once.
# What cannot be sent goes back into the draft. It may be durable after all, so it keeps its id until that is seen in the session, and then
# leaves the draft, or until something else is sent. It is a message of its own, also together with other text.

import autoload './client.vim'
import autoload './draft.vim'
import autoload './room.vim'
import autoload './say.vim' as words
import autoload './transcript.vim'
import autoload './view.vim'

var made = 0

# By session: [{text, id}, ...], what came back, in the order in which it stands at the beginning of the draft. It outlives its room, as the
# draft does.
var returned: dict<list<dict<string>>> = {}

export def Say(to: any, text: string)
  SayAll(to, [{text: text, id: NewId()}])
enddef

# Says the whole draft.
export def SayDraft(to: any, text: string)
  var parts = Parts(to, text)
  returned[to.id] = []
  SayAll(to, mapnew(parts, (_, part) => ({text: part.text, id: part.id ?? NewId()})))
enddef

def SayAll(to: any, messages: list<dict<string>>)
  var entries = mapnew(messages, (_, one) => ({text: one.text, message: {id: one.id, role: 'user', content: one.text}}))
  extend(to.outbox, entries)
  if to.state ==# 'gone'
    room.OpenAgain(to)
  elseif to.state ==# 'lost'
    words.Warn('the message will be sent when the daemon is back')
    Wake(to)
  else
    for entry in entries
      Send(to, entry)
    endfor
  endif
  room.Refresh()
enddef

# The messages of a draft: [{text, id, line, rows}, ...], the last one without an id if it did not come back.
def Parts(to: any, text: string): list<dict<any>>
  var lines = split(text, "\n", true)
  var parts: list<dict<any>> = []
  var line = 0
  for one in get(returned, to.id, [])
    var back = split(one.text, "\n", true)
    var end = line + len(back)
    if lines[line : end - 1] == back && get(lines, end, '') ==# ''
      add(parts, {text: one.text, id: one.id, line: line, rows: len(back)})
      line = end + 1
    endif
  endfor
  var rest = join(lines[line :], "\n")
  if trim(rest) !=# ''
    add(parts, {text: rest, id: '', line: line, rows: 0})
  endif
  return parts
enddef

# These messages are in the session: what came back of them needs not be sent.
export def Arrived(to: any, messages: list<any>)
  if empty(get(returned, to.id, []))
    return
  endif
  for message in messages
    if indexof(returned[to.id], (_, one) => one.id ==# message.id) < 0
      continue
    endif
    for part in filter(Parts(to, draft.Text(to)), (_, one) => one.id ==# message.id)
      draft.TakeOut(to, part.line, part.rows)
    endfor
    filter(returned[to.id], (_, one) => one.id !=# message.id)
  endfor
enddef

# Sends everything that waits, after the connection was lost.
export def SendAll(to: any)
  for entry in copy(to.outbox)
    Send(to, entry)
  endfor
enddef

# Puts what could not be sent back into the draft.
export def TakeBack(to: any)
  var entries = remove(to, 'outbox')
  to.outbox = []
  if !empty(entries)
    PutBack(to, entries)
  endif
enddef

def PutBack(to: any, entries: list<any>)
  returned[to.id] = mapnew(entries, (_, entry) => ({text: entry.text, id: entry.message.id})) + get(returned, to.id, [])
  draft.PutBack(to, mapnew(entries, (_, entry) => entry.text))
enddef

# Before Vim exits: what waits for a lost connection.
export def TakeBackUnsent()
  for one in room.All()
    if one.state ==# 'lost'
      TakeBack(one)
    endif
  endfor
enddef

def NewId(): string
  made += 1
  return printf('vim-%d-%d-%x-%d', localtime(), getpid(), rand(), made)
enddef

# Connects now rather than when the next attempt is due.
def Wake(to: any)
  client.Request('daemon/hello', {}, (error, _) => {
    if get(error, 'kind', '') ==# 'noProgram'
      words.Error('not sent', error)
      TakeBack(to)
    endif
  })
enddef

def Send(to: any, entry: any)
  client.Request('session/append', {sessionId: to.id, messages: [entry.message]}, (error, answer) => Sent(to, entry, error, answer))
enddef

def Sent(to: any, entry: any, error: dict<any>, answer: any)
  var place = indexof(to.outbox, (_, one) => one is entry)
  var left = !room.IsHere(to)
  if place < 0 || (get(error, 'kind', '') ==# 'disconnected' && !left)
    return
  endif
  remove(to.outbox, place)
  if !empty(error)
    words.Error('not sent', error)
    PutBack(to, [entry])
  elseif !left
    var message = extend({seq: answer.messages[0].seq, timestamp: strftime('%Y-%m-%d %H:%M')}, entry.message)
    view.Paint(to.buf, to.t, transcript.Put(to.t, message))
    to.said = entry.text
    draft.Touch(to)
  endif
  room.Refresh()
enddef
