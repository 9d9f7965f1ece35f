vim9script
# A transcript in its buffer. Line 1 says where it begins; then each message: a line with role and time, its text, an empty line.
#
# `rows` of a message is the number of its lines. Lines are counted from the end, where almost everything happens.

import autoload './transcript.vim'
import autoload './when.vim'

export const MARK = '▌ '

# Paints everything; windows that show the buffer go to its end.
export def Reset(buf: number, t: any)
  var lines = [Top(t)]
  for index in range(transcript.Len(t))
    lines += Rendered(transcript.At(t, index))
  endfor
  Change(buf, () => {
    silent deletebufline(buf, 1, '$')
    setbufline(buf, 1, lines)
  })
  for win in win_findbuf(buf)
    MoveTo(win, len(lines))
  endfor
enddef

# Paints the edits that one change made (transcript.vim); windows that were at the end remain there.
export def Paint(buf: number, t: any, edits: list<list<any>>)
  if !bufloaded(buf)
    return
  endif
  var following = filter(win_findbuf(buf), (_, win) => AtEnd(win, buf))
  Change(buf, () => {
    for edit in edits
      if edit[0] ==# 'insert'
        appendbufline(buf, LineAfter(buf, t, edit[1]), Rendered(transcript.At(t, edit[1])))
      elseif edit[0] ==# 'grow'
        Grow(buf, t, edit[1], edit[2])
      elseif edit[0] ==# 'redo'
        Redo(buf, t, edit[1])
      endif
    endfor
    SetTop(buf, t)
  })
  for win in following
    MoveTo(win, LastLine(buf))
  endfor
enddef

# `count` older messages were inserted before the others. Windows keep showing the same text.
export def Prepended(buf: number, t: any, count: number)
  var lines: list<string> = []
  for index in range(count)
    lines += Rendered(transcript.At(t, index))
  endfor
  var on_top = filter(win_findbuf(buf), (_, win) => line('.', win) == 1)
  Change(buf, () => {
    appendbufline(buf, 1, lines)
    SetTop(buf, t)
  })
  for win in on_top
    MoveTo(win, min([len(lines) + 2, LastLine(buf)]))
  endfor
enddef

# The line where a message begins.
export def LineOf(buf: number, t: any, index: number): number
  return LineAfter(buf, t, index - 1) + 1
enddef

# The index of the message that a line belongs to; -1 for the first line.
export def MessageAt(buf: number, t: any, lnum: number): number
  return transcript.IndexBefore(t, LastLine(buf) - lnum)
enddef

export def Show(win: number, lnum: number)
  MoveTo(win, lnum)
  win_execute(win, 'normal! zt')
enddef

export def Rendered(message: any): list<string>
  var lines = [Head(message)] + Body(message) + ['']
  message.rows = len(lines)
  return lines
enddef

def Top(t: any): string
  if !t.more
    var name = get(t.info, 'name', v:null)
    return '· ' .. OneLine(type(name) == v:t_string ? $'{name} ({t.id})' : t.id)
  endif
  var older = max([t.count - transcript.Len(t), 1])
  return $'· {older} older messages: come to this line, or :SessiondOlder'
enddef

def SetTop(buf: number, t: any)
  if getbufline(buf, 1) != [Top(t)]
    setbufline(buf, 1, Top(t))
  endif
enddef

def Head(message: any): string
  var author = get(message, 'author', v:null)
  var parts = [message.role .. (type(author) == v:t_string && author !=# '' ? $' ({author})' : '')]
  if type(get(message, 'toolCallId', v:null)) == v:t_string
    add(parts, 'result of ' .. message.toolCallId)
  endif
  add(parts, when.Local(get(message, 'timestamp', '')))
  var status = get(message, 'status', v:null)
  if type(status) == v:t_string && status !=# 'done'
    add(parts, status ==# 'streaming' ? '…' : status)
  endif
  return MARK .. OneLine(join(parts, ' · '))
enddef

def Body(message: any): list<string>
  var lines: list<string> = []
  if type(get(message, 'thinking', v:null)) == v:t_string && message.thinking !=# ''
    lines += mapnew(split(message.thinking, "\n", true), (_, line) => '> ' .. line)
  endif
  if type(message.content) == v:t_string
    lines += split(message.content, "\n", true)
  else
    for block in message.content
      lines += Block(block)
    endfor
  endif
  if type(get(message, 'toolCalls', v:null)) == v:t_list
    for call in message.toolCalls
      var given = type(call.arguments) == v:t_string ? call.arguments : json_encode(call.arguments)
      add(lines, OneLine($'→ {call.name}({given})'))
    endfor
  endif
  return lines
enddef

def Block(block: any): list<string>
  if type(block) == v:t_dict && type(get(block, 'text', v:null)) == v:t_string
    return split(block.text, "\n", true)
  endif
  return [OneLine(type(block) == v:t_string ? block : json_encode(block))]
enddef

def OneLine(text: string): string
  return substitute(text, '[[:cntrl:]]\+', ' ', 'g')
enddef

# The last line of the message at `index`, where the next one begins. A message that is not painted yet has no rows.
def LineAfter(buf: number, t: any, index: number): number
  return LastLine(buf) - transcript.RowsAfter(t, index)
enddef

def Grow(buf: number, t: any, index: number, text: string)
  var message = transcript.At(t, index)
  if type(get(message, 'toolCalls', v:null)) == v:t_list
    Redo(buf, t, index)
    return
  endif
  var last = LineAfter(buf, t, index) - 1
  var lines = split(text, "\n", true)
  lines[0] = getbufline(buf, last)[0] .. lines[0]
  setbufline(buf, last, lines[0])
  if len(lines) > 1
    appendbufline(buf, last, lines[1 :])
    message.rows += len(lines) - 1
  endif
enddef

def Redo(buf: number, t: any, index: number)
  var end = LineAfter(buf, t, index)
  var start = end - transcript.At(t, index).rows + 1
  var lines = Rendered(transcript.At(t, index))
  var old = getbufline(buf, start, end)
  # Only what differs is changed, so that cursors in the text remain where they are.
  var same = 0
  while same < len(lines) && same < len(old) && lines[same] ==# old[same]
    same += 1
  endwhile
  if len(lines) == len(old)
    setbufline(buf, start + same, lines[same :])
    return
  endif
  appendbufline(buf, end, lines[same :])
  if start + same <= end
    deletebufline(buf, start + same, end)
  endif
enddef

def LastLine(buf: number): number
  return getbufinfo(buf)[0].linecount
enddef

def AtEnd(win: number, buf: number): bool
  var visual = win == win_getid() && mode() =~# "^[vVsS\<C-v>\<C-s>]"
  return !visual && line('.', win) == LastLine(buf)
enddef

def MoveTo(win: number, lnum: number)
  win_execute(win, $'call cursor({lnum}, 1)')
enddef

def Change(buf: number, Do: func())
  setbufvar(buf, '&modifiable', true)
  Do()
  setbufvar(buf, '&modifiable', false)
  setbufvar(buf, '&modified', false)
enddef
