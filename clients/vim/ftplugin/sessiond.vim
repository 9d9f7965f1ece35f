vim9script
# A conversation: reading, moving, and the way to the draft.

if exists('b:did_ftplugin')
  finish
endif
b:did_ftplugin = 1

import autoload 'sessiond.vim'

setlocal wrap linebreak
if &g:statusline ==# ''
  setlocal statusline=%{sessiond#Statusline()}\ %<%f%=%l/%L
endif

nnoremap <buffer> <silent> [[ <ScriptCmd>sessiond.Jump(-1)<CR>
nnoremap <buffer> <silent> ]] <ScriptCmd>sessiond.Jump(1)<CR>
b:undo_ftplugin = 'setlocal wrap< linebreak< statusline< | silent! nunmap <buffer> [[| silent! nunmap <buffer> ]]'
for key in ['i', 'I', 'a', 'A', 'o', 'O']
  execute $'nnoremap <buffer> <silent> {key} <Cmd>SessiondDraft<CR><Cmd>startinsert!<CR>'
  b:undo_ftplugin ..= $'| silent! nunmap <buffer> {key}'
endfor
