vim9script
# Runs the tests of one file: every function g:Test_* that it defines. $SESSIOND_TEST names the file, results go to $SESSIOND_RESULT.
#   vim -Nu NONE -i NONE -es -S run.vim

import autoload '../autoload/sessiond/client.vim'

execute 'set runtimepath^=' .. fnameescape(expand('<sfile>:p:h:h'))
runtime plugin/sessiond.vim
filetype plugin on

def Run(name: string): list<string>
  v:errors = []
  v:errmsg = ''
  var start = reltime()
  try
    call('g:' .. name, [])
  catch
    add(v:errors, v:throwpoint .. ': ' .. v:exception)
  endtry
  # What only a compilation says.
  if v:errmsg =~# '^E\d'
    add(v:errors, v:errmsg)
  endif
  if empty(v:errors)
    return [printf('ok %s %.2f s', name, reltimefloat(reltime(start)))]
  endif
  return ['FAILED ' .. name] + v:errors + ['messages:'] + split(execute('messages'), "\n")
enddef

# The next test finds no buffers and makes a connection of its own.
def CleanUp()
  silent! :%bwipeout!
  unlet! g:sessiond_command
  for job in job_info()
    job_stop(job, 'kill')
  endfor
  while client.Connected()
    sleep 5m
  endwhile
  silent! :%bwipeout!
  messages clear
enddef

var results: list<string> = []
try
  execute 'source' fnameescape($SESSIOND_TEST)
  for name in sort(getcompletion('Test_', 'function'))
    results += Run(substitute(name, '(.*', '', ''))
    CleanUp()
  endfor
catch
  results += ['FAILED to load', v:throwpoint .. ': ' .. v:exception]
endtry
if empty(results)
  results = ['FAILED no tests']
endif
writefile(results, $SESSIOND_RESULT)
execute indexof(results, (_, line) => line =~# '^FAILED') < 0 ? 'qall!' : 'cquit!'
