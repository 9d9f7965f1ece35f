vim9script
import './help.vim' as t

# Writes what Vim shows of each session into $SESSIOND_WIRE.shown. $SESSIOND_WIRE names a file that lists the sessions, one a line: the id
# and how many messages it has.

def g:Test_shown()
  var shown: list<string> = []
  for line in readfile($SESSIOND_WIRE)
    var [id, count] = split(line)
    execute 'SessiondSwitch' id
    t.Wait(id .. ' is open', () => bufname() ==# 'sessiond://' .. id && (len(t.Heads()) > 0 || count ==# '0'))
    SessiondOlder!
    t.Wait(id .. ' is shown', () => len(t.Heads()) == str2nr(count))
    shown += getline(2, '$') + ["\f"]
  endfor
  writefile(shown, $SESSIOND_WIRE .. '.shown')
enddef
