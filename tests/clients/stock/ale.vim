" Session files in Vim, in ALE, the LSP client that Debian packages. Run by test_stock_clients.py: $SESSIOND_FILE is a session's file,
" $SESSIOND_BROKEN one with a line that cannot be read; results go to $SESSIOND_RESULT, a line each.
set nocompatible hidden
set runtimepath^=/usr/share/vim-ale
filetype plugin on
let g:ale_linters_explicit = 1
let g:ale_linters = {'sessiond': ['sessiond']}
let g:ale_set_balloons = 0
let g:ale_hover_to_preview = 1
let g:ale_hover_cursor = 0
runtime plugin/ale.vim
call ale#linter#Define('sessiond', {'name': 'sessiond', 'lsp': 'stdio', 'executable': 'sessiond', 'command': '%e',
      \ 'project_root': {buffer -> fnamemodify(bufname(buffer), ':p:h')}, 'language': 'jsonl'})

let s:results = []

function! s:Check(name, found) abort
  call add(s:results, (a:found ? 'ok ' : 'FAILED ') .. a:name)
endfunction

function! s:Wait(holds) abort
  let l:start = reltime()
  while !a:holds() && reltimefloat(reltime(l:start)) < 20
    sleep 20m
  endwhile
  return a:holds()
endfunction

function! s:Lists(text) abort
  for l:buffer in range(1, bufnr('$'))
    if getbufvar(l:buffer, '&filetype') =~# '^ale-' && join(getbufline(l:buffer, 1, '$'), "\n") =~# a:text
      return 1
    endif
  endfor
  return 0
endfunction

function! s:Problems() abort
  return ale#engine#GetLoclist(bufnr('%'))
endfunction

execute 'edit' fnameescape($SESSIOND_BROKEN)
set filetype=sessiond
ALELint
call s:Check('a broken line is a diagnostic', s:Wait({-> len(s:Problems()) == 1 && s:Problems()[0].lnum == 3}))
execute 'edit' fnameescape($SESSIOND_FILE)
set filetype=sessiond
ALELint
call cursor(3, 2)
ALEHover
call s:Check('hover says who and when', s:Wait({-> s:Lists('m-1')}))
execute 'buffer' bufnr($SESSIOND_FILE)
ALESymbolSearch zebra-word
call s:Check('symbols search all sessions', s:Wait({-> s:Lists('zebra-word')}))

call writefile(s:results, $SESSIOND_RESULT)
qall!
