-- Times of the wire (RFC 3339, UTC) as people read them.
local M = {}

-- `2026-01-11 14:30`, local time; unreadable text is returned unchanged.
function M.local_time(stamp)
  if type(stamp) ~= 'string' then
    return ''
  end
  local year, month, day, hour, min, sec = stamp:match('^(%d%d%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d).*Z$')
  if not year then
    return stamp
  end
  local as_local = os.time({ year = year, month = month, day = day, hour = hour, min = min, sec = sec, isdst = false })
  local utc = os.date('!*t', as_local)
  utc.isdst = false
  return os.date('%Y-%m-%d %H:%M', as_local + os.difftime(as_local, os.time(utc)))
end

return M
