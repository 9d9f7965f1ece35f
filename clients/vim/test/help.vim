vim9script
# What the tests share: waiting, and a second client on a connection of its own.

import '../autoload/sessiond/rpc.vim'

const DEADLINE_MS = 15000

# Lets Vim serve its channels till the condition holds.
export def Wait(what: string, Holds: func(): bool)
  var start = reltime()
  while !Holds()
    if reltimefloat(reltime(start)) * 1000 > DEADLINE_MS
      throw $'not within {DEADLINE_MS} ms: {what}; buffer: {string(getline(1, "$")[-20 :])}; messages: {execute("messages")}'
    endif
    sleep 5m
  endwhile
enddef

# The text of the current buffer without heads, first line and empty lines.
export def Texts(buf: number = 0): list<string>
  return filter(getbufline(buf ?? bufnr(), 2, '$'), (_, line) => line !=# '' && line !~# '^▌')
enddef

export def Heads(buf: number = 0): list<string>
  return filter(getbufline(buf ?? bufnr(), 2, '$'), (_, line) => line =~# '^▌')
enddef

export def WaitForTexts(expected: list<string>, buf: number = 0)
  Wait($'{string(expected)} shown', () => Texts(buf) == expected)
enddef

export def WaitForMessage(pattern: string)
  Wait($'a message {pattern}', () => execute('messages') =~ pattern)
enddef

# A new session in the current window; its id.
export def New(name: string): string
  execute 'SessiondNew' name
  Wait(name .. ' is shown', () => sessiond#Statusline() ==# $'[{name}:0]')
  return b:sessiond_id
enddef

# Another client. `heard` collects its notifications.
export def Other(): dict<any>
  var heard: list<list<any>> = []
  var conn = rpc.Connect(['sessiond'], (method, params) => add(heard, [method, params]), (_) => 0)
  conn.heard = heard
  return conn
enddef

# The result of a request of the other client; throws where it fails.
export def Ask(other: dict<any>, method: string, params: dict<any>): any
  var answer = rpc.Eval(other, method, params, DEADLINE_MS)
  if !has_key(answer, 'result')
    throw $'{method}: {string(answer)}'
  endif
  return answer.result
enddef

export def Append(other: dict<any>, id: string, messages: list<dict<any>>): any
  return Ask(other, 'session/append', {sessionId: id, messages: messages})
enddef

# kill -9 the daemon, as a crash would.
export def KillDaemon(other: dict<any>)
  var pid = Ask(other, 'daemon/hello', {}).pid
  system($'kill -9 {pid}')
enddef
