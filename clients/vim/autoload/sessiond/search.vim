vim9script
# Searching all sessions: the hits in the quickfix list, each leading to its message.

import autoload './client.vim'
import autoload './room.vim'
import autoload './say.vim'

const MOST_HITS = 500

export def Search(query: string, regex: bool)
  client.Request('session/search', {query: query, mode: regex ? 'regex' : 'text', limit: MOST_HITS}, (error, found) => {
    if !empty(error)
      say.Error('the search failed', error)
    elseif empty(found.hits)
      say.Info('nothing found for ' .. query)
    else
      Show(query, found)
    endif
  })
enddef

def Show(query: string, found: dict<any>)
  var part = len(found.hits) < found.total ? $' ({len(found.hits)} of {found.total})' : ''
  setqflist([], ' ', {title: $'sessiond: {query}{part}', items: mapnew(found.hits, (_, hit) => Item(hit))})
  botright copen
enddef

def Item(hit: dict<any>): dict<any>
  var name = type(hit.name) == v:t_string ? hit.name : hit.sessionId
  var who = type(hit.role) == v:t_string ? $'[{hit.role}] ' : ''
  return {
    filename: room.Name(hit.sessionId) .. (type(hit.messageId) == v:t_string ? '@' .. hit.seq : ''),
    module: substitute(name, '[[:cntrl:]]', ' ', 'g'),
    lnum: 1,
    text: who .. substitute(hit.snippet, '[[:cntrl:]]\+', ' ', 'g'),
  }
enddef
