vim9script
# Choosing among all sessions: completion, and a menu.

import autoload './client.vim'
import autoload './say.vim'
import autoload './when.vim'

const PAGE = 1000
# Completion waits no longer than this, and shows what has arrived by then.
const COMPLETE_MS = 1000
# The same in a fresh editor, whose first Tab starts the connection, and perhaps the daemon.
const FIRST_COMPLETE_MS = 4000
const MENU_ROWS = 20

# So many bytes of an id are shown at least. Those that sessiond makes are shorter, and whole.
const ID = 26

# The last list, in case no answer comes in time.
var known: list<any> = []

# What goes on in a session: `waits: permission`, `works`, or nothing.
def Doing(session: any): string
  var activity = get(session, 'activity', {})
  if empty(activity)
    return ''
  endif
  if activity.state != 'waiting'
    return 'works'
  endif
  return has_key(activity, 'waitingFor') ? 'waits: ' .. activity.waitingFor : 'waits'
enddef

# `name · waits: permission · 12 messages · 2026-01-11 14:30 · #tag`
def Describe(session: any): string
  var parts = [type(session.name) == v:t_string ? session.name : '(no name)']
  if has_key(session, 'activity')
    add(parts, Doing(session))
  endif
  add(parts, session.messageCount == 1 ? '1 message' : session.messageCount .. ' messages')
  add(parts, when.Local(session.updatedAt))
  if !empty(session.tags)
    add(parts, join(mapnew(session.tags, (_, tag) => '#' .. tag)))
  endif
  return substitute(join(parts, ' · '), '[[:cntrl:]]\+', ' ', 'g')
enddef

# Each id -> its beginning, just long enough that none of the other sessions' ids begins with it.
def Shortened(sessions: list<any>): dict<string>
  var ids: list<string> = sort(mapnew(sessions, (_, session) => session.sessionId))
  var short: dict<string> = {}
  for n in range(len(ids))
    var id = ids[n]
    # Of all others, those beside it have most in common with it.
    var beside = [n > 0 ? ids[n - 1] : '', get(ids, n + 1, '')]
    var size = ID
    while size < len(id) && indexof(beside, (_, one) => stridx(one, strpart(id, 0, size)) == 0) >= 0
      size += 1
    endwhile
    # Not in the middle of a character.
    while size < len(id) && and(char2nr(strpart(id, size, 1)), 0xC0) == 0x80
      size += 1
    endwhile
    short[id] = strpart(id, 0, size)
  endfor
  return short
enddef

# The text in which words are looked for.
def Searched(session: any): string
  return tolower(session.sessionId .. '  ' .. Describe(session))
enddef

# customlist completion: descriptions in which all words that were typed occur; their first word is the id.
export def Complete(lead: string, line: string, pos: number): list<string>
  var words = split(tolower(substitute(strpart(line, 0, pos), '^.\{-}Sessiond\a*!\?\s*', '', '')))
  var sessions = Known()
  var short = Shortened(sessions)
  var found = filter(copy(sessions), (_, session) => Has(Searched(session), words))
  # Vim replaces only the last word.
  var only = len(words) > 1 || (len(words) == 1 && lead ==# '')
  return mapnew(found, (_, session) => short[session.sessionId] .. (only ? '' : '  ' .. Describe(session)))
enddef

# The session named by the words after :SessiondSwitch: Then(id).
export def Resolve(typed: string, Then: func)
  var words = split(typed)
  All((sessions) => {
    var ids: dict<string> = {}
    for [id, short] in items(Shortened(sessions))
      ids[short] = id
    endfor
    for session in sessions
      ids[session.sessionId] = session.sessionId
    endfor
    # A completed description begins with the id; after words to search by, the id comes last.
    for word in [words[0], words[-1]]
      if has_key(ids, word)
        Then(ids[word])
        return
      endif
    endfor
    var lower = split(tolower(typed))
    var found = filter(copy(sessions), (_, session) => Has(Searched(session), lower))
    if len(found) == 1
      Then(found[0].sessionId)
    elseif empty(found)
      # It may be archived.
      Then(words[0])
    else
      Menu(found, Then)
    endif
  })
enddef

# A menu of all sessions.
export def Choose(Then: func)
  All((sessions) => {
    if empty(sessions)
      say.Info('there are no sessions yet; :SessiondNew makes one')
    else
      Menu(sessions, Then)
    endif
  })
enddef

export def Menu(sessions: list<any>, Then: func)
  var short = Shortened(sessions)
  popup_menu(mapnew(sessions, (_, session) => Describe(session) .. ' · ' .. short[session.sessionId]), {
    title: ' sessions ',
    maxheight: MENU_ROWS,
    callback: (_, chosen) => chosen > 0 ? Then(sessions[chosen - 1].sessionId) : 0,
  })
enddef

# All sessions that are not archived, newest first: Then(sessions).
def All(Then: func, cursor: any = v:null, before: list<any> = [])
  client.Request('session/list', {limit: PAGE, cursor: cursor}, (error, page) => {
    if !empty(error)
      say.Error('cannot list the sessions', error)
      return
    endif
    var sessions = before + page.sessions
    if type(page.nextCursor) == v:t_string
      All(Then, page.nextCursor, sessions)
    else
      known = sessions
      Then(sessions)
    endif
  })
enddef

def Known(): list<any>
  var started = reltime()
  var patience = client.Ready() ? COMPLETE_MS : FIRST_COMPLETE_MS
  var sessions: list<any> = []
  var cursor: any = v:null
  while true
    var left = patience - Elapsed(started)
    var page = left > 0 ? client.Eval('session/list', {limit: PAGE, cursor: cursor}, left) : v:null
    if type(page) != v:t_dict
      return len(sessions) > len(known) ? sessions : known
    endif
    sessions += page.sessions
    cursor = page.nextCursor
    if type(cursor) != v:t_string
      break
    endif
  endwhile
  known = sessions
  return sessions
enddef

def Elapsed(since: list<any>): number
  return float2nr(reltimefloat(reltime(since)) * 1000)
enddef

def Has(text: string, words: list<string>): bool
  return indexof(words, (_, word) => stridx(text, word) < 0) < 0
enddef
