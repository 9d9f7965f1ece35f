vim9script
# Our messages: each waits in its room's outbox until it is durable.
#
# An entry is {text, message}. The message has our own id, so that it may be sent again after a lost answer: the daemon takes it once.
# What cannot be sent goes back into the draft.

import autoload './client.vim'
import autoload './draft.vim'
import autoload './room.vim'
import autoload './say.vim' as words
import autoload './transcript.vim'
import autoload './view.vim'

var made = 0

export def Say(to: any, text: string)
  var entry = {text: text, message: {id: Id(to, text), role: 'user', content: text}}
  add(to.outbox, entry)
  if to.state ==# 'gone'
    room.OpenAgain(to)
  elseif to.state ==# 'lost'
    words.Warn('the message will be sent when the daemon is back')
    Wake(to)
  else
    Send(to, entry)
  endif
  room.Refresh()
enddef

# Sends everything that waits, after the connection was lost.
export def SendAll(to: any)
  for entry in copy(to.outbox)
    Send(to, entry)
  endfor
enddef

# Puts what could not be sent back into the draft.
export def TakeBack(to: any)
  var texts = mapnew(remove(to, 'outbox'), (_, entry) => entry.text)
  to.outbox = []
  if !empty(texts)
    draft.PutBack(to, texts)
  endif
enddef

# Before Vim exits: what waits for a lost connection.
export def TakeBackUnsent()
  for one in room.All()
    if one.state ==# 'lost'
      TakeBack(one)
    endif
  endfor
enddef

# A message with an unknown outcome keeps its id when it is sent again.
def Id(to: any, text: string): string
  var unsure = get(to, 'unsure', {})
  if get(unsure, 'text', v:null) ==# text
    return unsure.id
  endif
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
    to.unsure = error.kind ==# 'indeterminate' ? {text: entry.text, id: entry.message.id} : {}
    draft.PutBack(to, [entry.text])
  elseif !left
    var message = extend({seq: answer.messages[0].seq, timestamp: strftime('%Y-%m-%d %H:%M')}, entry.message)
    view.Paint(to.buf, to.t, transcript.Put(to.t, message))
    to.unsure = {}
    to.said = entry.text
    draft.Touch(to)
  endif
  room.Refresh()
enddef
