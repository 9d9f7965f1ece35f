vim9script
# `a +b -c`: what :SessiondTag takes.

import autoload './room.vim'

# The tags with the words added or, with `-` before them, removed.
export def Changed(tags: list<string>, words: string): list<string>
  var result = copy(tags)
  for word in split(words)
    var tag = substitute(word, '^[+-]', '', '')
    filter(result, (_, one) => one !=# tag)
    if word[0] !=# '-' && tag !=# ''
      add(result, tag)
    endif
  endfor
  return result
enddef

# The session's own tags, for removal.
export def Complete(lead: string, line: string, pos: number): list<string>
  var here = room.Current()
  var tags = empty(here) ? [] : get(here.t.info, 'tags', [])
  return filter(mapnew(tags, (_, tag) => '-' .. tag), (_, word) => stridx(word, lead) == 0)
enddef
