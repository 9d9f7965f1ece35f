vim9script
# Times of the wire (RFC 3339, UTC) as people read them.

# `2026-01-11 14:30`, local time; unreadable text is returned unchanged.
export def Local(stamp: any): string
  if type(stamp) != v:t_string
    return ''
  endif
  if !exists('*strptime') || stamp !~# '^\d\{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*Z$'
    return stamp
  endif
  var as_local = strptime('%Y-%m-%dT%H:%M:%S', stamp[: 18])
  var zone = strftime('%z', as_local)
  var sign = zone[0] ==# '-' ? -1 : 1
  var offset = sign * (str2nr(zone[1 : 2]) * 3600 + str2nr(zone[3 : 4]) * 60)
  return strftime('%Y-%m-%d %H:%M', as_local + offset)
enddef
