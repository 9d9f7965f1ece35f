vim9script
# What is being typed for a session: a separate buffer below the conversation, sessiond-draft://ID.
#
# The daemon keeps its text, in the session's state under KEY, at most once a second, so that it survives Vim. While a message is on its way
# nothing is stored: the typed text remains there until it is durable as a message. `modified` says that the daemon does not have it.
# All Vims have one draft in a session: what another one keeps there stays, before ours.

import autoload './client.vim'
import autoload './outbox.vim'
import autoload './room.vim'
import autoload './say.vim'

const KEY = 'draft:vim'
const EVERY_MS = 1000
const HEIGHT = 5
const KEEP_MS = 1000

# What this adds to a room: {draft: buffer or 0, typed: its text when it was last read, kept: our text that the daemon has, sent: the one
# that it was sent last, others: what other Vims keep in the same draft, said: the last text that became a message, opened: whether the
# session was ever open, restored: whether the text of an earlier Vim is here already, stored_at, timer, complained: the user was told that the daemon refuses it}.
export def Join(to: any)
  var buf = bufexists(Name(to.id)) ? bufadd(Name(to.id)) : 0
  extend(to, {draft: bufloaded(buf) ? buf : 0, typed: '', kept: '', sent: '', others: '', said: '', opened: false, stored_at: [], timer: 0,
    complained: false})
  to.restored = Text(to) !=# ''
enddef

# The session was opened. The first time an earlier draft comes back, before what has been typed since, unless it was sent from here; later
# the text here is the newer one. What an earlier Vim may have sent is shown: the same may have been typed again, and twice is better than
# lost.
export def Opened(of: any, state: dict<any>)
  var stored = get(state, KEY, '')
  if of.opened
    Heard(of, state)
    Touch(of)
    return
  endif
  of.opened = true
  of.kept = type(stored) == v:t_string ? stored : ''
  var known = mapnew(of.outbox, (_, entry) => entry.text) + ['', of.said, Text(of)]
  if !of.restored && index(known, of.kept) < 0
    PutBack(of, [of.kept])
  else
    Touch(of)
  endif
enddef

# The state was changed.
export def Changed(of: any, values: dict<any>)
  if has_key(values, KEY)
    Heard(of, values)
  endif
enddef

# Another Vim may have changed the draft in this state: ours is a part of it, or gone.
def Heard(of: any, state: dict<any>)
  var stored = get(state, KEY, '')
  var draft = "\n\n" .. (type(stored) == v:t_string ? stored : '') .. "\n\n"
  for ours in [of.sent, of.kept]
    var at = ours ==# '' ? -1 : stridx(draft, $"\n\n{ours}\n\n")
    if at >= 0
      draft = strpart(draft, 0, at) .. strpart(draft, at + 2 + len(ours))
      break
    endif
  endfor
  of.others = trim(draft, "\n")
enddef

# Opens the window for typing, at the end of the present text.
export def Open(of: any)
  Show(of)
  if !win_gotoid(bufwinid(of.draft))
    execute $'sbuffer {of.draft}'
  endif
  cursor('$', v:maxcol)
enddef

# Puts unsent texts before what has been typed since.
export def PutBack(of: any, texts: list<string>)
  Show(of)
  var text = join(texts, "\n\n")
  if Text(of) ==# ''
    Fill(of.draft, text)
  else
    # Inserted, so that the cursor stays in what is being typed.
    appendbufline(of.draft, 0, split(text, "\n", true) + [''])
  endif
  Touch(of)
enddef

# Takes lines out, and the empty one after them.
export def TakeOut(of: any, line: number, rows: number)
  if of.draft != 0 && bufloaded(of.draft)
    silent deletebufline(of.draft, line + 1, min([line + rows + 1, getbufinfo(of.draft)[0].linecount]))
  else
    var lines = split(of.typed, "\n", true)
    remove(lines, line, min([line + rows, len(lines) - 1]))
    of.typed = join(lines, "\n")
  endif
  Touch(of)
enddef

# Sends what was typed.
export def Send(of: any)
  var text = Text(of)
  if trim(text) ==# ''
    say.Warn('there is nothing to send')
    return
  endif
  Fill(of.draft, '')
  outbox.SayDraft(of, text)
enddef

# Closes its window if its conversation is no longer shown: below another one it would be taken for that one's draft.
export def HideAlone(of: any)
  if of.draft > 0 && bufwinid(of.draft) > 0 && bufwinid(of.buf) < 0
    win_execute(bufwinid(of.draft), 'hide')
  endif
enddef

export def Text(of: any): string
  return of.draft == 0 || !bufloaded(of.draft) ? of.typed : join(getbufline(of.draft, 1, '$'), "\n")
enddef

# Something was typed or sent: the daemon gets it now, or when the second is over.
export def Touch(of: any)
  of.typed = Text(of)
  if !empty(of.outbox)
    return
  endif
  if of.timer != 0 || Typed(of) ==# of.kept
    Settle(of)
    return
  endif
  var passed = empty(of.stored_at) ? EVERY_MS : float2nr(reltimefloat(reltime(of.stored_at)) * 1000)
  if passed >= EVERY_MS
    Store(of, Typed(of))
  else
    of.timer = timer_start(EVERY_MS - passed, (_) => Store(of, Typed(of)))
  endif
enddef

# Sends the text without waiting for its second. Does not read the buffer: on a deadly signal Vim removes its text first.
export def Flush(of: any)
  if empty(of.outbox) && Worth(of.typed) !=# of.kept
    Store(of, Worth(of.typed))
  endif
enddef

# Waits a moment until the daemon has the text. Returns whether it has.
export def Kept(of: any): bool
  of.typed = Text(of)
  var typed = Worth(of.typed)
  of.sent = typed
  if typed !=# of.kept && of.state ==# 'open' && client.Eval('state/set', Wire(of, typed), KEEP_MS) != v:null
    of.kept = typed
  endif
  Settle(of)
  return typed ==# of.kept
enddef

def Store(of: any, typed: string)
  timer_stop(of.timer)
  of.timer = 0
  of.stored_at = reltime()
  if of.state !=# 'open' || typed ==# of.kept
    return
  endif
  of.sent = typed
  client.Request('state/set', Wire(of, typed), (error, _) => {
    if empty(error)
      of.kept = typed
      of.complained = false
      if room.IsHere(of)
        Touch(of)
      endif
    elseif error.kind ==# 'sessionNotFound'
      # Deleted while this was on its way. The notification reports that, and the text remains in its buffer.
    elseif error.kind !=# 'disconnected' && !of.complained
      of.complained = true
      say.Error('the draft could not be saved', error)
    endif
  })
enddef

def Wire(of: any, typed: string): dict<any>
  var values = {}
  var texts = filter([of.others, typed], (_, text) => text !=# '')
  values[KEY] = empty(texts) ? v:null : join(texts, "\n\n")
  return {sessionId: of.id, values: values}
enddef

def Typed(of: any): string
  return Worth(Text(of))
enddef

# The part of a text that is worth keeping.
def Worth(text: string): string
  return trim(text) ==# '' ? '' : text
enddef

def Settle(of: any)
  if of.draft != 0 && bufloaded(of.draft) && Typed(of) ==# of.kept
    setbufvar(of.draft, '&modified', false)
  endif
enddef

def Name(id: string): string
  return 'sessiond-draft://' .. id
enddef

def Fill(buf: number, text: string)
  silent deletebufline(buf, 1, '$')  # otherwise it reports that there are no lines
  setbufline(buf, 1, split(text, "\n", true))
enddef

def Make(of: any)
  of.draft = bufadd(Name(of.id))
  bufload(of.draft)
enddef

# BufReadCmd for sessiond-draft://ID.
export def Read(name: string, buf: number)
  setbufvar(buf, 'sessiond_id', matchstr(name, '^sessiond-draft://\zs.*'))
  for [option, typed] in items({buftype: 'acwrite', bufhidden: 'hide', swapfile: false, buflisted: false, filetype: 'sessiond-draft'})
    setbufvar(buf, '&' .. option, typed)
  endfor
  var of = room.Of(buf)
  if !empty(of)
    of.draft = buf
    Fill(buf, of.typed)
    Settle(of)
  endif
  augroup sessiond_drafts
    execute $'autocmd! * <buffer={buf}>'
    execute $'autocmd TextChanged,TextChangedI,TextChangedP,InsertLeave <buffer={buf}> Typing({buf})'
    execute $'autocmd BufUnload <buffer={buf}> Unloaded({buf})'
    execute $'autocmd BufWriteCmd <buffer={buf}> Written({buf})'
  augroup END
enddef

# Shows the draft below its conversation, if that is shown, and remains in the current window.
def Show(of: any)
  if of.draft == 0 || !bufloaded(of.draft)
    Make(of)
  endif
  var above = bufwinid(of.buf)
  if bufwinid(of.draft) < 0 && above > 0
    try
      win_execute(above, $'belowright split | resize {HEIGHT}')
    catch /^Vim\%((\S\+)\)\=:E36:/
      say.Warn('the window is too small to show the draft; use :SessiondDraft')
      return
    endtry
    var opened = win_execute(above, 'echo win_getid(winnr("j"))')
    win_execute(str2nr(trim(opened)), $'hide buffer {of.draft} | setlocal winfixheight nonumber norelativenumber')
  endif
enddef

def Typing(buf: number)
  var of = room.Of(buf)
  if !empty(of)
    Touch(of)
  endif
enddef

def Unloaded(buf: number)
  var of = room.Of(buf)
  if !empty(of)
    Flush(of)
  endif
enddef

def Written(buf: number)
  var of = room.Of(buf)
  if empty(of) || !Kept(of)
    say.Warn('the draft cannot be saved now: the daemon is not connected')
  endif
enddef

# Before Vim exits. It asks only about what could not be sent, not about a draft that the daemon has.
def Exiting()
  outbox.TakeBackUnsent()
  for buf in getbufinfo({bufmodified: 1})
    var of = room.Of(buf.bufnr)
    if !empty(of) && of.draft == buf.bufnr
      Kept(of)
    endif
  endfor
enddef

augroup sessiond_quit
  autocmd!
  autocmd ExitPre * Exiting()
augroup END
