vim9script
# What the commands do, and sessiond#Statusline().

import autoload './sessiond/answer.vim'
import autoload './sessiond/client.vim'
import autoload './sessiond/draft.vim'
import autoload './sessiond/outbox.vim'
import autoload './sessiond/pick.vim'
import autoload './sessiond/resume.vim'
import autoload './sessiond/room.vim'
import autoload './sessiond/say.vim'
import autoload './sessiond/search.vim' as finder
import autoload './sessiond/tags.vim'
import autoload './sessiond/transcript.vim'
import autoload './sessiond/view.vim'

# `[name:count]` of the session in a buffer (default: the current one), '' in other buffers.
export def Statusline(buf: number = bufnr()): string
  return room.Statusline(buf)
enddef

export def New(mods: string, name: string)
  var window = win_getid()
  client.Request('session/new', {name: name ==# '' ? v:null : name, cwd: getcwd()}, (error, made) => {
    if !room.Failed('no new session', error)
      EnterFrom(window, mods, made.session.sessionId)
    endif
  })
enddef

export def Switch(mods: string, typed: string)
  var window = win_getid()
  if trim(typed) ==# ''
    pick.Choose((id) => EnterFrom(window, mods, id))
  else
    pick.Resolve(typed, (id) => EnterFrom(window, mods, id))
  endif
enddef

export def Search(query: string, regex: bool)
  finder.Search(query, regex)
enddef

export def Name(name: string)
  var here = Here()
  if !empty(here)
    room.Update(here, {name: name}, (_) => 0)
  endif
enddef

export def Tag(words: string)
  var here = Here()
  if !empty(here)
    room.Update(here, {tags: tags.Changed(get(here.t.info, 'tags', []), words)}, (session) => say.Info('tags: ' .. join(session.tags)))
  endif
enddef

export def Archive(archived: bool)
  var here = Here()
  if !empty(here)
    room.Update(here, {archived: archived}, (_) => say.Info(here.id .. (archived ? ' is archived' : ' is no longer archived')))
  endif
enddef

export def Answer(words: string)
  answer.Answer(get(room.Current(), 'id', ''), words)
enddef

# A message of the text, of the lines of a range, of both, or of the draft.
export def Say(text: string, range: number, first: number, last: number)
  var here = Here()
  if empty(here)
    return
  endif
  var lines = range > 0 ? getline(first, last) : []
  if text ==# '' && empty(lines)
    draft.Send(here)
  else
    outbox.Say(here, join((text ==# '' ? [] : [text]) + lines, "\n"))
  endif
enddef

export def Save()
  var here = Here()
  if empty(here)
    return
  endif
  client.Request('session/save', {sessionId: here.id}, (error, kept) => {
    if !room.Failed('not saved', error)
      var saved = kept.saved
      say.Info(empty(saved) ? 'nothing to save' : $'{saved[0].path} ({saved[0].bytes} bytes)')
    endif
  })
enddef

# Closes conversation and draft; without `force` only when the daemon has the draft.
export def Close(force: bool)
  var here = Here()
  if empty(here)
    return
  endif
  if !force && !draft.Kept(here)
    say.Error('not closed', {message: 'the daemon could not keep what you typed', hint: ':SessiondClose! discards it'})
    return
  endif
  var typing = here.draft
  execute $'bdelete! {here.buf}'
  if typing > 0
    execute $'bwipeout! {typing}'
  endif
enddef

# A copy; with `here_only` only up to the message under the cursor.
export def Fork(mods: string, name: string, here_only: bool)
  var here = Here()
  if empty(here)
    return
  endif
  var params: dict<any> = {sessionId: here.id}
  if name !=# ''
    params.name = name
  endif
  if here_only && bufnr() == here.buf
    var index = view.MessageAt(here.buf, here.t, line('.'))
    params.atSeq = index < 0 ? 0 : transcript.At(here.t, index).seq
  endif
  var window = win_getid()
  client.Request('session/fork', params, (error, forked) => {
    if !room.Failed('not forked', error)
      EnterFrom(window, mods, forked.session.sessionId)
    endif
  })
enddef

export def Resume(mods: string, tool: string, yank_only: bool)
  var here = Here()
  if !empty(here)
    resume.Resume(mods, here.id, tool, yank_only)
  endif
enddef

export def Older(all: bool)
  var here = Here()
  if !empty(here)
    room.Older(here, all)
  endif
enddef

export def Draft()
  var here = Here()
  if !empty(here)
    draft.Open(here)
  endif
enddef

# The cursor goes to the next (1) or previous (-1) message.
export def Jump(direction: number)
  search('^' .. view.MARK, direction > 0 ? 'W' : 'bW')
enddef

# In the window where the command was given, if it still exists; for a draft in that of its conversation.
def EnterFrom(window: number, mods: string, id: string)
  win_gotoid(window)
  var left = room.Of(bufnr())
  if mods ==# '' && !empty(left) && bufnr() == left.draft
    win_gotoid(bufwinid(left.buf))
  endif
  room.Enter(mods, id)
  if !empty(left)
    draft.HideAlone(left)
  endif
enddef

def Here(): any
  var here = room.Current()
  if empty(here)
    say.Error('no session', {message: 'none is open', hint: ':SessiondNew or :SessiondSwitch'})
  endif
  return here
enddef
