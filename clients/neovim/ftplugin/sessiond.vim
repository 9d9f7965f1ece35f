" A conversation: reading, moving, and the way to the draft.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal wrap linebreak
if &g:statusline ==# ''
  setlocal statusline=%{v:lua.require'sessiond'.statusline()}\ %<%f%=%l/%L
endif

nnoremap <buffer> <silent> [[ <Cmd>lua require('sessiond').jump(-1)<CR>
nnoremap <buffer> <silent> ]] <Cmd>lua require('sessiond').jump(1)<CR>
let b:undo_ftplugin = 'setlocal wrap< linebreak< statusline< | silent! nunmap <buffer> [[| silent! nunmap <buffer> ]]'
for s:key in ['i', 'I', 'a', 'A', 'o', 'O']
  execute 'nnoremap <buffer> <silent> ' .. s:key .. ' <Cmd>SessiondDraft<CR><Cmd>startinsert!<CR>'
  let b:undo_ftplugin ..= '| silent! nunmap <buffer> ' .. s:key
endfor
