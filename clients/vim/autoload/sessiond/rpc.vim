vim9script
# One connection to the daemon: a relay (`sessiond` between pipes) as a job, whose channel uses the LSP base protocol.
#
# A connection is a dict: {job, channel, open, pending: {id: Done}, said: [last lines on stderr], halves, Notified, Closed, limit}.
# `limit`: how many bytes of JSON the daemon takes as one message, 0 before it has said so.
# Every request is answered exactly once: by the daemon, or with LOST when the connection ends.

export const LOST = {kind: 'disconnected', message: 'the connection to the daemon was lost'}

const KEPT_STDERR_LINES = 5
# How long to wait for the last output of a relay that has ended.
const LAST_WORDS_MS = 500

# Starts a relay. Notified(method, params) gets the daemon's notifications, Closed(reason) is called once, at the end.
export def Connect(command: list<string>, Notified: func, Closed: func): dict<any>
  var conn: any = {pending: {}, said: [], halves: 0, limit: 0, open: true, Notified: Notified, Closed: Closed}
  conn.job = job_start(command, {
    in_mode: 'lsp',
    out_mode: 'lsp',
    err_mode: 'nl',
    # Never wait for a relay that does not read, and let it pass on what is in its pipe when Vim exits.
    noblock: 1,
    stoponexit: '',
    out_cb: (_, message) => Received(conn, message),
    err_cb: (_, line) => Said(conn, line),
    close_cb: (_) => HalfEnded(conn),
    exit_cb: (_, _) => Exited(conn),
  })
  conn.channel = job_getchannel(conn.job)
  if job_status(conn.job) ==# 'fail'
    Ended(conn)
  endif
  return conn
enddef

# Done(error, result): error is {} or {kind, message, hint?, ...}.
export def Request(conn: any, method: string, params: dict<any>, Done: func)
  var too_large = TooLarge(conn, method, params)
  if !empty(too_large)
    Done(too_large, v:null)
    return
  endif
  var sent: dict<any> = {}
  if conn.open
    try
      sent = ch_sendexpr(conn.channel, {method: method, params: params},
        {callback: (_, message) => Answered(conn, message)})
    catch /^Vim\%((\S\+)\)\=:E/
      # The channel is already closed, but its callbacks are still to come.
    endtry
  endif
  if empty(sent)
    Done(LOST, v:null)
    return
  endif
  conn.pending[sent.id] = Done
enddef

export def Notify(conn: any, method: string, params: any)
  try
    ch_sendexpr(conn.channel, {method: method, params: params})
  catch /^Vim\%((\S\+)\)\=:E/
  endtry
enddef

# Waits up to timeout_ms: {result: ...} or {error: {...}}, {} if no answer came in time.
export def Eval(conn: any, method: string, params: dict<any>, timeout_ms: number): dict<any>
  var too_large = TooLarge(conn, method, params)
  if !empty(too_large)
    return {error: too_large}
  endif
  var answer: any = {}
  if conn.open
    try
      answer = ch_evalexpr(conn.channel, {method: method, params: params}, {timeout: timeout_ms})
    catch /^Vim\%((\S\+)\)\=:E/
      return {}
    endtry
  endif
  if type(answer) != v:t_dict || empty(answer)
    return {}
  endif
  return has_key(answer, 'error') ? {error: ErrorOf(answer.error)} : {result: get(answer, 'result', v:null)}
enddef

# Ends it now.
export def Close(conn: any)
  job_stop(conn.job)
  Ended(conn)
enddef

# The error of a message that the daemon would end the connection for, so that it would be sent again for ever; {} for others.
def TooLarge(conn: any, method: string, params: dict<any>): dict<any>
  if conn.limit == 0 || len(json_encode({jsonrpc: '2.0', id: v:numbermax, method: method, params: params})) <= conn.limit
    return {}
  endif
  return {kind: 'tooLarge', message: $'this is longer than the {conn.limit} bytes that the daemon takes at once',
    limit: conn.limit, hint: 'send it in parts'}
enddef

def ErrorOf(wire: dict<any>): dict<any>
  var data = get(wire, 'data', v:null)
  var error: dict<any> = type(data) == v:t_dict ? copy(data) : {}
  error.message = get(wire, 'message', 'no reason given')
  error.kind = get(error, 'kind', 'internalError')
  return error
enddef

def Answered(conn: any, message: any)
  var id = get(message, 'id', 0)
  if !has_key(conn.pending, id)
    return
  endif
  var Done: func = remove(conn.pending, id)
  if has_key(message, 'error')
    Done(ErrorOf(message.error), v:null)
  else
    Done({}, get(message, 'result', v:null))
  endif
enddef

def Received(conn: any, message: any)
  if type(message) != v:t_dict || !has_key(message, 'method')
    return
  endif
  if has_key(message, 'id')
    ch_sendexpr(conn.channel, {id: message.id, error: {code: -32601, message: 'not served by this editor'}})
    return
  endif
  var params = get(message, 'params', v:null)
  conn.Notified(message.method, type(params) == v:t_dict ? params : {})
enddef

def Said(conn: any, line: string)
  conn.said = (conn.said + [line])[-KEPT_STDERR_LINES :]
enddef

def Exited(conn: any)
  # Notice the end even if another process holds the other end of its pipes.
  timer_start(LAST_WORDS_MS, (_) => Ended(conn))
  HalfEnded(conn)
enddef

# A job ends twice: its process ends, and its channel closes when all output is read.
def HalfEnded(conn: any)
  conn.halves += 1
  if conn.halves == 2
    Ended(conn)
  endif
enddef

def Ended(conn: any)
  if !conn.open
    return
  endif
  conn.open = false
  var waiting: list<func> = values(conn.pending)
  conn.pending = {}
  for Done in waiting
    Done(LOST, v:null)
  endfor
  conn.Closed(join(conn.said, ' '))
enddef
