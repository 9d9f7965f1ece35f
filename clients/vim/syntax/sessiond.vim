vim9script
if exists('b:current_syntax')
  finish
endif

runtime! syntax/markdown.vim
syntax match sessiondHead /^▌ .*$/
syntax match sessiondTop /\%1l.*/
highlight default link sessiondHead Title
highlight default link sessiondTop Comment
b:current_syntax = 'sessiond'
