vim9script
# What is known about one session: its newest messages without a gap, and everything that happened to them. Has neither buffers nor a
# connection.
#
# A transcript is {id, info, key, count, seq, more, gone}:
#   key       where its messages are kept, see `lists`
#   count     how many messages the session has, loaded or not
#   seq       all changes up to this one are included; our own may be included earlier
#   more      there are older messages than messages[0]
#   gone      [[after, upto], ...]: messages with such a seq were cleared or truncated
#
# Changes may arrive twice, and our own messages in any order: nothing is shown twice, nothing is lost. What must be repainted is returned
# as a list of edits:
#   ['insert', index], ['grow', index, text], ['redo', index], ['reset'], ['info'], and ['read']: read everything from the daemon again.

# Messages are outside the transcripts, in variables whose types are known here: Vim 9.0 checks every item of a container that is passed to
# a function or comes from a variable of type `any`, which takes milliseconds for thousands of messages. lists: oldest first, by seq; each
# as on the wire, plus `chars` (code points of a text) and whatever the view adds. by_ids: the same by id.
var lists: dict<list<any>> = {}
var by_ids: dict<dict<any>> = {}
var made = 0

export def New(id: string): any
  made += 1
  var t = {id: id, info: {}, key: string(made), count: 0, seq: 0, more: false, gone: []}
  Hold(t, [])
  return t
enddef

# Forgets its messages.
export def Drop(t: any)
  remove(lists, t.key)
  remove(by_ids, t.key)
enddef

export def Len(t: any): number
  return has_key(lists, t.key) ? len(lists[t.key]) : 0
enddef

export def At(t: any, index: number): any
  return lists[t.key][index]
enddef

def Hold(t: any, messages: list<any>)
  lists[t.key] = messages
  by_ids[t.key] = {}
  for message in messages
    Remember(message)
    by_ids[t.key][message.id] = message
  endfor
enddef

# Starts again with the answer to `session/open`.
export def Load(t: any, opened: any)
  t.seq = opened.session.seq
  t.more = opened.hasMore
  t.gone = []
  Hold(t, opened.messages)
  Inform(t, opened.session)
enddef

# The latest SessionInfo from the daemon.
export def Inform(t: any, info: dict<any>)
  t.info = info
  t.count = info.messageCount
  var messages: list<any> = lists[t.key]
  var index = len(messages) - 1
  while index >= 0 && messages[index].seq > info.seq
    t.count += 1
    index -= 1
  endwhile
enddef

# Takes in a page of older messages; returns how many were new.
export def Prepend(t: any, page: any): number
  var messages: list<any> = lists[t.key]
  var by_id: dict<any> = by_ids[t.key]
  var first = empty(messages) ? v:numbermax : messages[0].seq
  var older: list<any> = filter(page.messages, (_, m) => m.seq < first && !has_key(by_id, m.id))
  for message in older
    Remember(message)
    by_id[message.id] = message
  endfor
  extend(messages, older, 0)
  t.more = page.hasMore
  return len(older)
enddef

# The index of the message with this seq, or of the last one before it; -1 if that is not loaded.
export def Find(t: any, seq: number): number
  var messages: list<any> = lists[t.key]
  var [low, high] = [0, len(messages)]
  while low < high
    var middle = (low + high) / 2
    if messages[middle].seq <= seq
      low = middle + 1
    else
      high = middle
    endif
  endwhile
  return low - 1
enddef

# The number of lines of the messages after `index`, as the view counted them in `rows`.
export def RowsAfter(t: any, index: number): number
  var messages: list<any> = lists[t.key]
  var rows = 0
  var later = len(messages) - 1
  while later > index
    rows += get(messages[later], 'rows', 0)
    later -= 1
  endwhile
  return rows
enddef

# The index of the message with the line that has `rows` lines after it; -1 above all messages.
export def IndexBefore(t: any, rows: number): number
  var messages: list<any> = lists[t.key]
  var index = len(messages) - 1
  var after = index < 0 ? 0 : messages[index].rows
  while index >= 0 && after <= rows
    index -= 1
    after += index < 0 ? 0 : messages[index].rows
  endwhile
  return index
enddef

# Takes in a message that the daemon has made durable. Returns edits.
export def Put(t: any, message: any): list<list<any>>
  var messages: list<any> = lists[t.key]
  var by_id: dict<any> = by_ids[t.key]
  if has_key(by_id, message.id) || Gone(t, message.seq)
    return []
  endif
  if t.more && !empty(messages) && message.seq < messages[0].seq
    return []
  endif
  Remember(message)
  by_id[message.id] = message
  var index = Find(t, message.seq) + 1
  insert(messages, message, index)
  if message.seq > t.info.seq
    t.count += 1
  endif
  return [['insert', index], ['info']]
enddef

# Takes in a change from the daemon. Returns edits.
export def Apply(t: any, change: any): list<list<any>>
  var edits: list<list<any>> = []
  var kind = change.kind
  var fresh = change.seq > t.seq
  if kind ==# 'appended'
    for message in change.messages
      edits += Put(t, message)
    endfor
  elseif kind ==# 'extended'
    edits = Extend(t, change)
  elseif kind ==# 'finished'
    edits = Finish(t, change)
  elseif kind ==# 'updated' && fresh
    Inform(t, change.session)
    edits = [['info']]
  elseif kind ==# 'cleared' && fresh
    edits = Cut(t, -1, change.seq)
  elseif kind ==# 'truncated' && fresh
    edits = Cut(t, change.afterSeq, change.seq)
  endif
  t.seq = max([t.seq, change.seq])
  return edits
enddef

def Remember(message: any)
  message.chars = type(message.content) == v:t_string ? strchars(message.content) : -1
enddef

def Gone(t: any, seq: number): bool
  return indexof(t.gone, (_, span) => span[0] < seq && seq < span[1]) >= 0
enddef

def Extend(t: any, change: any): list<list<any>>
  var message = get(by_ids[t.key], change.messageId, {})
  if empty(message)
    return []
  endif
  if message.chars < 0
    return [['read']]
  endif
  var offset = get(change, 'offset', v:null)
  var known = type(offset) == v:t_number ? message.chars - offset : 0
  if known < 0
    return [['read']]
  endif
  var text = known > 0 ? strcharpart(change.text, known) : change.text
  if text ==# ''
    return []
  endif
  message.content ..= text
  message.chars += strchars(text)
  return [['grow', Find(t, message.seq), text]]
enddef

def Finish(t: any, change: any): list<list<any>>
  var message = get(by_ids[t.key], change.messageId, {})
  if empty(message)
    return []
  endif
  message.status = get(change, 'status', 'done')
  if type(get(change, 'toolCalls', v:null)) == v:t_list
    message.toolCalls = change.toolCalls
  endif
  return [['redo', Find(t, message.seq)]]
enddef

def Cut(t: any, after: number, upto: number): list<list<any>>
  add(t.gone, [after, upto])
  var kept = Find(t, after) + 1
  if kept == 0 && after >= 0 && t.more
    return [['read']]
  endif
  var messages: list<any> = lists[t.key]
  var removed = len(messages) - kept
  if removed > 0
    for message in remove(messages, kept, -1)
      remove(by_ids[t.key], message.id)
    endfor
  endif
  t.more = t.more && after >= 0
  t.count = after < 0 ? 0 : t.count - removed
  return [['reset'], ['info']]
enddef
