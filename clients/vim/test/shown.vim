vim9script
import './help.vim' as t

# Writes what Vim shows of each session, one by one, into the file that $SESSIOND_WIRE names with `.shown` behind it: the file has their
# ids, one a line, and how many messages each has.

def g:Test_shown()
  var shown: list<string> = []
  for line in readfile($SESSIOND_WIRE)
    var [id, count] = split(line)
    execute 'SessiondSwitch' id
    t.Wait(id .. ' is shown', () => bufname() ==# 'sessiond://' .. id && len(t.Heads()) == str2nr(count))
    shown += getline(2, '$') + ["\f"]
  endfor
  writefile(shown, $SESSIOND_WIRE .. '.shown')
enddef
