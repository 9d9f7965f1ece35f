vim9script
# Whether shared stores are shared now.
#
# The hub of a shared store is where several machines meet. The daemon says in `daemon/status` whether it can be reached and how
# many changes wait here, and in `store/hubChanged` when that changes. It is asked once on each connection, and only when a
# session of another store than the default one is open: that one is never shared.

import autoload './client.vim'
import autoload './when.vim'

var known: dict<any> = {}
var told: dict<bool> = {}
var asked = false

# A session is open.
export def Need(id: string)
  if asked || Store(id) ==# ''
    return
  endif
  asked = true
  client.Request('daemon/status', {}, (error, status) => {
    if !empty(error)
      asked = false
      return
    endif
    for store in status.stores
      # What was told meanwhile is newer.
      if has_key(store, 'hub') && !has_key(told, store.name)
        known[store.name] = store.hub
      endif
    endfor
    redrawstatus!
  })
enddef

export def Heard(params: any)
  told[params.store] = true
  known[params.store] = params.hub
enddef

# The connection is gone.
export def Forget()
  known = {}
  told = {}
  asked = false
enddef

# `shared`, `3 waiting` or `offline since 14:30, 3 waiting` with a blank in front; '' for a session that is not shared.
export def Words(id: string): string
  var hub = get(known, Store(id), {})
  if empty(hub)
    return ''
  endif
  var words = hub.state ==# 'offline' ? [Since(get(hub, 'since', v:null))] : []
  if get(hub, 'pending', 0) > 0
    add(words, $'{hub.pending} waiting')
  endif
  return ' ' .. (empty(words) ? 'shared' : join(words, ', '))
enddef

def Since(stamp: any): string
  var shown = substitute(when.Local(stamp), '^' .. strftime('%Y-%m-%d '), '', '')
  return shown ==# '' ? 'offline' : $'offline since {shown}'
enddef

def Store(id: string): string
  var slash = stridx(id, '/')
  return slash > 0 ? id[: slash - 1] : ''
enddef
