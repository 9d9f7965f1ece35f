vim9script
# The open sessions: each joins a transcript, its buffer, and the connection.
#
# A room is {id, buf, t, state, early, outbox, ...}. Its state:
#   opening  `session/open` is on its way; notifications wait in `early`
#   open     follows live
#   lost     the connection is gone; opened again, since t.seq, when it is back
#   gone     deleted, or it could not be opened: what is shown remains; opened again when it is asked for
# `outbox` is outbox.vim's: our messages that are not durable yet.

import autoload './client.vim'
import autoload './draft.vim'
import autoload './hubs.vim'
import autoload './outbox.vim'
import autoload './say.vim'
import autoload './transcript.vim'
import autoload './view.vim'

const FIRST_PAGE = 200
const PAGE = 1000
const LEAVE_MS = 1000

var rooms: dict<any> = {}
var latest = ''

# Buffers

export def Name(id: string): string
  return 'sessiond://' .. id
enddef

# The room that a buffer belongs to (its conversation or its draft), {} if none.
export def Of(buf: number): any
  return get(rooms, getbufvar(buf, 'sessiond_id', ''), {})
enddef

# The room of the current buffer, otherwise the one used last, otherwise {}.
export def Current(): any
  var here = Of(bufnr())
  return empty(here) ? get(rooms, latest, {}) : here
enddef

export def All(): list<any>
  return values(rooms)
enddef

# Whether the room was not left meanwhile.
export def IsHere(room: any): bool
  return get(rooms, room.id, {}) is room
enddef

# Shows a session in a window, at its end or at the message with a seq.
export def Enter(mods: string, id: string, seq: number = 0)
  var buf = bufadd(Name(id))
  setbufvar(buf, '&buflisted', true)
  execute mods $'{mods ==# "" ? "hide " : "s"}buffer {buf}'
  var room = Of(buf)
  if get(room, 'state', '') ==# 'gone'
    OpenAgain(room)
  endif
  if seq > 0 && !empty(room)
    room.target = seq
    room.win = win_getid()
    Seek(room)
  endif
enddef

# BufReadCmd for sessiond://ID and sessiond://ID@SEQ.
export def Read(name: string, buf: number)
  var parts = matchlist(name, '^sessiond://\([A-Za-z0-9._%/-]\+\)\%(@\(\d\+\)\)\?$')
  if empty(parts)
    say.Error('not opened', {message: name .. ' does not name a session'})
    return
  endif
  var [id, at] = parts[1 : 2]
  if at !=# ''
    # A place in a session, as in the quickfix list: continue to the session once this buffer exists.
    setbufvar(buf, '&buftype', 'nofile')
    setbufvar(buf, '&bufhidden', 'unload')
    setbufvar(buf, '&buflisted', false)
    var win = win_getid()
    timer_start(0, (_) => GoOn(win, buf, id, str2nr(at)))
    return
  endif
  Set(buf, id)
  var room = {id: id, buf: buf, t: transcript.New(id), state: 'opening', early: [], outbox: [], paging: false, target: 0, win: 0}
  rooms[id] = room
  draft.Join(room)
  Open(room, false)
enddef

def GoOn(win: number, place: number, id: string, seq: number)
  if winbufnr(win) == place && win_gotoid(win)
    Enter('', id, seq)
  endif
enddef

def Set(buf: number, id: string)
  setbufvar(buf, 'sessiond_id', id)
  for [option, value] in items({buftype: 'nofile', bufhidden: 'hide', swapfile: false, undolevels: -1, modifiable: false, filetype: 'sessiond'})
    setbufvar(buf, '&' .. option, value)
  endfor
  augroup sessiond_rooms
    execute $'autocmd! * <buffer={buf}>'
    execute $'autocmd BufUnload <buffer={buf}> Leave(Of({buf}))'
    execute $'autocmd BufEnter <buffer={buf}> Entered({buf})'
    execute $'autocmd CursorMoved <buffer={buf}> Moved({buf})'
  augroup END
  latest = id
enddef

def Entered(buf: number)
  latest = getbufvar(buf, 'sessiond_id', '')
enddef

# The cursor on the first line requests what is before it.
def Moved(buf: number)
  var room = Of(buf)
  if line('.') == 1 && !empty(room) && room.t.more
    Older(room, false)
  endif
enddef

# The buffer is deleted: the session is saved and no longer followed.
def Leave(room: any)
  if empty(room)
    return
  endif
  if room.state ==# 'open'
    draft.Flush(room)
    client.Request('session/save', {sessionId: room.id}, (error, _) => {
      if get(error, 'kind', '') !=# 'disconnected'
        Failed($'{room.id} is not saved', error)
      endif
    })
  elseif room.state ==# 'opening'
    # After a lost connection nothing was sent yet; what was already sent is taken once.
    outbox.SendAll(room)
  else
    outbox.TakeBack(room)
  endif
  if room.state[: 3] ==# 'open'
    client.Request('session/close', {sessionId: room.id}, (_, _) => 0)
  endif
  remove(rooms, room.id)
  transcript.Drop(room.t)
enddef

def LeaveAll()
  for room in values(rooms)
    Leave(room)
  endfor
  client.Leave(LEAVE_MS)
enddef

# Opening and following

def Open(room: any, since: bool)
  room.state = 'opening'
  var how = since ? {since: room.t.seq} : {last: FIRST_PAGE}
  client.Request('session/open', extend({sessionId: room.id}, how), (error, opened) => Opened(room, since, error, opened))
enddef

# Opens a room that is gone: it may have been restored, or be readable again.
export def OpenAgain(room: any)
  Open(room, false)
enddef

def Opened(room: any, since: bool, error: dict<any>, opened: any)
  if !IsHere(room)
    return
  endif
  if !empty(error)
    NotOpened(room, error)
    return
  endif
  if since && type(get(opened, 'changes', v:null)) != v:t_list
    Open(room, false)
    return
  endif
  room.state = 'open'
  hubs.Need(room.id)
  if since
    for change in opened.changes
      Follow(room, change)
    endfor
    transcript.Inform(room.t, opened.session)
  else
    transcript.Load(room.t, opened)
    view.Reset(room.buf, room.t)
    outbox.Arrived(room, opened.messages)
  endif
  for change in remove(room, 'early')
    Follow(room, change)
  endfor
  room.early = []
  for warning in opened.warnings
    say.Warn($'{warning.path}:{warning.line}: {warning.message}')
  endfor
  outbox.SendAll(room)
  draft.Opened(room, opened.state)
  Seek(room)
  Refresh()
enddef

def NotOpened(room: any, error: dict<any>)
  if error.kind ==# 'disconnected'
    room.state = 'lost'
    return
  endif
  room.state = error.kind ==# 'noProgram' ? 'lost' : 'gone'
  say.Error(empty(room.outbox) ? $'{room.id} cannot be opened' : 'not sent', error)
  outbox.TakeBack(room)
  Refresh()
enddef

def Follow(room: any, change: any)
  if change.kind ==# 'appended'
    outbox.Arrived(room, change.messages)
  elseif change.kind ==# 'state'
    draft.Changed(room, change.values)
  endif
  var edits = transcript.Apply(room.t, change)
  for edit in edits
    if edit[0] ==# 'read'
      Open(room, false)
      return
    elseif edit[0] ==# 'reset'
      view.Reset(room.buf, room.t)
      return
    endif
  endfor
  view.Paint(room.buf, room.t, edits)
enddef

def Notified(method: string, params: any)
  if method ==# 'store/hubChanged'
    hubs.Heard(params)
    Refresh()
    return
  endif
  var id = get(params, 'sessionId', '') ?? get(get(params, 'session', {}), 'sessionId', '')
  if !has_key(rooms, id)
    return
  endif
  var room = rooms[id]
  if method ==# 'session/changed'
    Changed(room, params.changes)
  elseif method ==# 'session/reloaded'
    Open(room, false)
  elseif method ==# 'session/resync' && room.state ==# 'open'
    Open(room, true)
  elseif method ==# 'session/deleted'
    room.state = 'gone'
    if has_key(params, 'movedTo')
      say.Warn($'{id} was moved by somebody else; `:SessiondSwitch {params.movedTo}` shows it')
    else
      say.Warn($'{id} was deleted by somebody else; `sessiond restore {id}` brings it back')
    endif
  endif
  Refresh()
enddef

def Changed(room: any, changes: list<any>)
  for change in changes
    # Following may begin to open the session again midway.
    if room.state ==# 'opening'
      add(room.early, change)
    else
      Follow(room, change)
    endif
  endfor
enddef

def Up()
  for room in values(rooms)
    if room.state ==# 'lost'
      Open(room, !empty(room.t.info))
    endif
  endfor
enddef

def Down(for_good: bool)
  hubs.Forget()
  for room in values(rooms)
    if room.state !=# 'gone'
      room.state = 'lost'
      room.early = []
    endif
    room.paging = false
    if for_good && !empty(room.outbox)
      say.Error('not sent', {message: 'the daemon cannot be used'})
      outbox.TakeBack(room)
    endif
  endfor
  Refresh()
enddef

# Older messages

# Loads a page before the first message, or everything.
export def Older(room: any, all: bool)
  if room.state !=# 'open' || room.paging || !room.t.more
    return
  endif
  room.paging = true
  var first = transcript.Len(room.t) == 0 ? v:numbermax : transcript.At(room.t, 0).seq
  client.Request('session/read', {sessionId: room.id, before: first, limit: all || room.target > 0 ? PAGE : FIRST_PAGE}, (error, page) => {
    room.paging = false
    if !bufloaded(room.buf) || !IsHere(room) || Failed('older messages', error)
      return
    endif
    view.Prepended(room.buf, room.t, transcript.Prepend(room.t, page))
    if all
      Older(room, true)
    endif
    Seek(room)
  })
enddef

# Goes to the requested message as soon as it is loaded.
def Seek(room: any)
  if room.target <= 0 || room.state !=# 'open'
    return
  endif
  var index = transcript.Find(room.t, room.target)
  if index < 0 && room.t.more
    Older(room, false)
    return
  endif
  room.target = 0
  if winbufnr(room.win) == room.buf
    view.Show(room.win, view.LineOf(room.buf, room.t, max([index, 0])))
  endif
enddef

# Says what failed, if anything did.
export def Failed(doing: string, error: dict<any>): bool
  if !empty(error)
    say.Error(doing, error)
  endif
  return !empty(error)
enddef

# Changes what is known about a session, Then(info).
export def Update(room: any, fields: dict<any>, Then: func)
  client.Request('session/update', extend({sessionId: room.id}, fields), (error, answer) => {
    if !Failed('not changed', error) && IsHere(room)
      transcript.Inform(room.t, answer.session)
      view.Paint(room.buf, room.t, [['info']])
      Refresh()
      Then(answer.session)
    endif
  })
enddef

export def Statusline(buf: number): string
  var room = Of(buf)
  if empty(room)
    return ''
  endif
  var name = get(room.t.info, 'name', v:null)
  var shown = type(name) == v:t_string && name !=# '' ? name : substitute(room.id, '^\(.*/\)\?session-', '\1', '')
  var state = {opening: ' …', open: '', lost: ' offline', gone: ' gone'}[room.state]
  var waiting = empty(room.outbox) ? '' : $' {len(room.outbox)} unsent'
  return substitute($'[{shown}:{room.t.count}{state}{waiting}]{hubs.Words(room.id)}', '[[:cntrl:]]', ' ', 'g')
enddef

export def Refresh()
  redrawstatus!
enddef

# Called so that what stands below is done.
export def Load()
enddef

client.Listen({Notified: Notified, Up: Up, Down: Down, Wanted: () => !empty(rooms)})

augroup sessiond_leave
  autocmd!
  autocmd VimLeavePre * LeaveAll()
augroup END
