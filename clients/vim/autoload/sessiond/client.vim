vim9script
# Vim's one connection to the daemon: started when first needed, and again after every loss while sessions are open.

import autoload './room.vim'
import autoload './rpc.vim'
import autoload './say.vim'

const PROTOCOL = 1
const FIRST_DELAY_MS = 200
const LAST_DELAY_MS = 10000

var conn: any = {}
var up = false            # the daemon has answered on this connection
var refused = false       # the daemon refuses us: retrying is useless
var failures = 0          # failures since the last answer
var by_itself = false     # this connection was not requested by a command
var again = 0             # the timer of the next attempt
var leaving = false

# Callbacks: Notified(method, params), Up(), Down(for_good), Wanted(): bool.
var listener: dict<func> = {}

export def Listen(to: dict<func>)
  listener = to
enddef

# Whether a relay is running or just ending.
export def Connected(): bool
  return !empty(conn)
enddef

# Whether the daemon has answered on the connection that there is.
export def Ready(): bool
  return up
enddef

# Done(error, result), see rpc.vim. Starts the connection if necessary.
export def Request(method: string, params: dict<any>, Done: func)
  var problem = Start()
  if empty(problem)
    rpc.Request(conn, method, params, Done)
  else
    Done(problem, v:null)
  endif
enddef

# The result, or null if it did not come within timeout_ms.
export def Eval(method: string, params: dict<any>, timeout_ms: number): any
  if !empty(Start())
    return v:null
  endif
  return get(rpc.Eval(conn, method, params, timeout_ms), 'result', v:null)
enddef

# Before Vim ends: when this returns, everything sent has reached the daemon, or timeout_ms are over.
export def Leave(timeout_ms: number)
  leaving = true
  if up
    rpc.Eval(conn, 'daemon/hello', {}, timeout_ms)
  endif
enddef

export def Command(): list<string>
  var command = get(g:, 'sessiond_command', 'sessiond')
  return type(command) == v:t_list ? command : split(command)
enddef

# {}, or the reason for the refusal.
def Start(): dict<any>
  if !empty(conn)
    return {}
  endif
  timer_stop(again)
  var command = Command()
  if empty(command) || !executable(command[0])
    return {kind: 'noProgram', message: $'program {string(get(command, 0, ""))} not found',
      hint: 'install sessiond, or set g:sessiond_command'}
  endif
  # It listens to the connection. Completion in a fresh editor connects before any command has loaded it.
  room.Load()
  refused = false
  by_itself = false
  conn = rpc.Connect(command, Notified, Closed)
  rpc.Request(conn, 'initialize', {
    processId: getpid(),
    clientInfo: {name: 'vim', version: string(v:versionlong)},
    rootUri: v:null,
    capabilities: {},
    initializationOptions: get(g:, 'sessiond_initialization_options', {}),
  }, Initialized)
  return {}
enddef

def Initialized(error: dict<any>, result: any)
  if error is rpc.LOST || get(error, 'kind', '') ==# 'disconnected'
    return
  endif
  if !empty(error)
    Refuse(error)
    return
  endif
  var ours = get(get(get(result, 'capabilities', {}), 'experimental', {}), 'sessiond', {})
  var spoken = get(ours, 'protocolVersion', 0)
  if spoken != PROTOCOL
    Refuse({message: $'it speaks protocol {spoken}, this plugin needs {PROTOCOL}', hint: 'update sessiond, then run `sessiond stop`'})
    return
  endif
  if by_itself
    say.Info('reconnected')
  endif
  up = true
  failures = 0
  conn.limit = get(get(ours, 'limits', {}), 'messageBytes', 0)
  rpc.Notify(conn, 'initialized', {})
  listener.Up()
enddef

def Refuse(error: dict<any>)
  say.Error('the daemon cannot be used', error)
  refused = true
  rpc.Close(conn)
enddef

def Notified(method: string, params: any)
  listener.Notified(method, params)
enddef

def Closed(reason: string)
  var was_up = up
  conn = {}
  up = false
  if leaving
    return
  endif
  if was_up
    say.Warn('the connection to the daemon was lost')
  elseif !refused && !by_itself
    say.Error('no connection', {message: reason ==# '' ? 'the relay ended' : reason})
  endif
  failures += 1
  listener.Down(refused)
  if !refused && listener.Wanted()
    Later()
  endif
enddef

def Later()
  var delay = FIRST_DELAY_MS * float2nr(pow(2, min([failures - 1, 10])))
  timer_stop(again)
  again = timer_start(min([delay, LAST_DELAY_MS]), (_) => Again())
enddef

def Again()
  if !empty(conn) || leaving || !listener.Wanted()
    return
  endif
  if empty(Start())
    by_itself = true
  else
    failures += 1
    Later()
  endif
enddef
