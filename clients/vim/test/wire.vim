vim9script
import '../autoload/sessiond/rpc.vim'

# Replays one wire transcript ($SESSIOND_WIRE, see tests/wire/README.md) over this plugin's own connections.

const DEADLINE_MS = 15000

var clients: dict<dict<any>> = {}
var asked: dict<dict<any>> = {}
var names: dict<any> = {}

def Client(who: string): dict<any>
  if !has_key(clients, who)
    var heard: list<list<any>> = []
    clients[who] = rpc.Connect(['sessiond'], (method, params) => add(heard, [method, params]), (_) => 0)
    clients[who].heard = heard
  endif
  return clients[who]
enddef

def Wait(Holds: func(): bool)
  var start = reltime()
  while !Holds()
    if reltimefloat(reltime(start)) * 1000 > DEADLINE_MS
      throw 'nothing came'
    endif
    sleep 2m
  endwhile
enddef

def Filled(given: any): any
  if type(given) == v:t_string
    return get(names, given, given)
  elseif type(given) == v:t_dict || type(given) == v:t_list
    return map(given, (_, item) => Filled(item))
  endif
  return given
enddef

def Match(expected: any, found: any, where: string)
  if type(expected) == v:t_string && expected ==# '...'
    return
  elseif type(expected) == v:t_string && expected[0] ==# '$'
    if !has_key(names, expected)
      names[expected] = found
    endif
    assert_equal(names[expected], found, where)
  elseif type(expected) == v:t_dict && type(found) == v:t_dict
    for [key, item] in items(expected)
      if has_key(found, key)
        Match(item, found[key], $'{where}.{key}')
      else
        assert_report($'{where}.{key} is missing in {string(found)}')
      endif
    endfor
  elseif type(expected) == v:t_list && type(found) == v:t_list && len(expected) == len(found)
    for index in range(len(expected))
      Match(expected[index], found[index], $'{where}[{index}]')
    endfor
  else
    assert_equal(expected, found, where)
  endif
enddef

def Answer(who: string): dict<any>
  Wait(() => has_key(asked[who], 'error'))
  return asked[who]
enddef

def Notification(who: string, method: string): dict<any>
  var heard: list<list<any>> = Client(who).heard
  Wait(() => indexof(heard, (_, one) => one[0] ==# method) >= 0)
  while heard[0][0] !=# method
    remove(heard, 0)
  endwhile
  return remove(heard, 0)[1]
enddef

def Line(line: string)
  var who = line[0]
  var rest = trim(strpart(line, 2))
  var silent_one = rest[0] ==# '!' && line[1] ==# '>'
  if silent_one
    rest = trim(strpart(rest, 1))
  endif
  var [word, json] = matchlist(rest, '^\(\S*\)\s*\(.*\)$')[1 : 2]
  if line[1] ==# '-'
    rpc.Close(remove(clients, who))
  elseif silent_one
    rpc.Notify(Client(who), word, Filled(json_decode(json ?? '{}')))
  elseif line[1] ==# '>'
    var answer: dict<any> = {}
    asked[who] = answer
    rpc.Request(Client(who), word, Filled(json_decode(json ?? '{}')), (error, result) => {
      answer.error = error
      answer.result = result
    })
  elseif line[1] ==# '<'
    assert_equal({}, Answer(who).error, line)
    Match(json_decode(rest), asked[who].result, line)
  elseif line[1] ==# '!'
    assert_equal(word, get(Answer(who).error, 'kind', ''), line)
    Match(json_decode(json ?? '{}'), asked[who].error, line)
  elseif line[1] ==# '*'
    Match(json_decode(json ?? '{}'), Notification(who, word), line)
  else
    assert_report('no line of a transcript: ' .. line)
  endif
enddef

def g:Test_the_daemon_answers_as_the_transcript_says()
  for line in readfile($SESSIOND_WIRE)
    if trim(line) !=# '' && line[0] !=# '#'
      Line(line)
      if !empty(v:errors)
        return
      endif
    endif
  endfor
enddef
