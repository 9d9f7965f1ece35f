if !has('vim9script')
  " Vim 8 and Neovim: the latter has a separate plugin.
  finish
endif
vim9script
# Conversations kept by sessiond. Commands only; their code is loaded when the first of them is used.

if exists('g:loaded_sessiond')
  finish
endif
g:loaded_sessiond = 1

if !has('channel') || !has('job') || !has('timers') || !has('patch-9.0.0438')
  command! -nargs=* SessiondSwitch echoerr 'sessiond needs Vim 9.0.0438 or later with +channel, +job and +timers'
  finish
endif

import autoload '../autoload/sessiond.vim'
import autoload '../autoload/sessiond/draft.vim'
import autoload '../autoload/sessiond/pick.vim'
import autoload '../autoload/sessiond/resume.vim'
import autoload '../autoload/sessiond/room.vim'
import autoload '../autoload/sessiond/tags.vim'

command! -nargs=? SessiondNew sessiond.New(<q-mods>, <q-args>)
command! -nargs=? -complete=customlist,pick.Complete SessiondSwitch sessiond.Switch(<q-mods>, <q-args>)
command! -nargs=+ -bang SessiondSearch sessiond.Search(<q-args>, <bang>false)
command! -nargs=1 SessiondName sessiond.Name(<q-args>)
command! -nargs=+ -complete=customlist,tags.Complete SessiondTag sessiond.Tag(<q-args>)
command! -nargs=? -range SessiondSay sessiond.Say(<q-args>, <range>, <line1>, <line2>)
command! -bar SessiondSave sessiond.Save()
command! -bar -bang SessiondClose sessiond.Close(<bang>false)
command! -nargs=? -bang SessiondFork sessiond.Fork(<q-mods>, <q-args>, <bang>false)
command! -nargs=1 -bang -complete=customlist,resume.Complete SessiondResume sessiond.Resume(<q-mods>, <q-args>, <bang>false)
command! -nargs=? SessiondAnswer sessiond.Answer(<q-args>)
command! -bar -bang SessiondArchive sessiond.Archive(<bang>true)
command! -bar -bang SessiondOlder sessiond.Older(<bang>false)
command! -bar SessiondDraft sessiond.Draft()

augroup sessiond
  autocmd!
  autocmd BufReadCmd sessiond://* room.Read(expand('<amatch>'), str2nr(expand('<abuf>')))
  autocmd BufReadCmd sessiond-draft://* draft.Read(expand('<amatch>'), str2nr(expand('<abuf>')))
augroup END
