vim9script
# What is being typed: <CR> in Normal mode sends it, :w keeps it now.

if exists('b:did_ftplugin')
  finish
endif
b:did_ftplugin = 1

setlocal textwidth=0
nnoremap <buffer> <silent> <CR> <Cmd>SessiondSay<CR>
b:undo_ftplugin = 'setlocal textwidth< | silent! nunmap <buffer> <CR>'
