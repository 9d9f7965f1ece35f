-- What is known about one session: its newest messages without a gap, and everything that happened to them. Has neither buffers nor
-- a connection.
--
-- A transcript is {id, info, messages, by_id, count, seq, more, gone}:
--   messages  oldest first, by seq; each as on the wire, plus `chars` (code points of a text) and whatever the view adds
--   count     how many messages the session has, loaded or not
--   seq       all changes up to this one are included; our own may be included earlier
--   more      there are older messages than messages[1]
--   gone      {{after, upto}, ...}: messages with such a seq were cleared or truncated
--
-- Changes may arrive twice, and our own messages in any order: nothing is shown twice, nothing is lost. What must be repainted is
-- returned as a list of edits:
--   {'insert', index}, {'grow', index, text}, {'redo', index}, {'reset'}, {'info'}, and {'read'}: read everything from the daemon again.
local M = {}

function M.new(id)
  return { id = id, info = {}, messages = {}, by_id = {}, count = 0, seq = 0, more = false, gone = {} }
end

-- Code points.
function M.chars(text)
  return select(2, text:gsub('[^\128-\191]', ''))
end

-- The text after its first `count` code points.
function M.after(text, count)
  local at = 1
  for _ = 1, count do
    at = at + 1
    while at <= #text and text:byte(at) >= 0x80 and text:byte(at) < 0xC0 do
      at = at + 1
    end
  end
  return text:sub(at)
end

local function remember(t, message)
  message.chars = type(message.content) == 'string' and M.chars(message.content) or -1
  t.by_id[message.id] = message
end

-- Starts again with the answer to `session/open`.
function M.load(t, opened)
  t.seq, t.more, t.gone = opened.session.seq, opened.hasMore, {}
  t.messages, t.by_id = opened.messages, {}
  for _, message in ipairs(t.messages) do
    remember(t, message)
  end
  M.inform(t, opened.session)
end

-- The latest SessionInfo from the daemon.
function M.inform(t, info)
  t.info = info
  t.count = info.messageCount
  for index = #t.messages, 1, -1 do
    if t.messages[index].seq <= info.seq then
      break
    end
    t.count = t.count + 1
  end
end

-- Takes in a page of older messages; returns how many were new.
function M.prepend(t, page)
  local first = t.messages[1] and t.messages[1].seq or math.huge
  local all = {}
  for _, message in ipairs(page.messages) do
    if message.seq < first and not t.by_id[message.id] then
      remember(t, message)
      all[#all + 1] = message
    end
  end
  local added = #all
  vim.list_extend(all, t.messages)
  t.messages, t.more = all, page.hasMore
  return added
end

-- The index of the message with this seq, or of the last one before it; 0 if that is not loaded.
function M.find(t, seq)
  local low, high = 1, #t.messages + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if t.messages[middle].seq <= seq then
      low = middle + 1
    else
      high = middle
    end
  end
  return low - 1
end

local function is_gone(t, seq)
  for _, span in ipairs(t.gone) do
    if span[1] < seq and seq < span[2] then
      return true
    end
  end
  return false
end

-- Takes in a message that the daemon has made durable. Returns edits.
function M.put(t, message)
  local first = t.messages[1]
  if t.by_id[message.id] or is_gone(t, message.seq) or (t.more and first and message.seq < first.seq) then
    return {}
  end
  remember(t, message)
  local index = M.find(t, message.seq) + 1
  table.insert(t.messages, index, message)
  if message.seq > t.info.seq then
    t.count = t.count + 1
  end
  return { { 'insert', index }, { 'info' } }
end

local function extend(t, change)
  local message = t.by_id[change.messageId]
  if not message then
    return {}
  end
  local known = change.offset and message.chars - change.offset or 0
  if message.chars < 0 or known < 0 then
    return { { 'read' } }
  end
  local text = M.after(change.text, known)
  if text == '' then
    return {}
  end
  message.content = message.content .. text
  message.chars = message.chars + M.chars(text)
  return { { 'grow', M.find(t, message.seq), text } }
end

local function finish(t, change)
  local message = t.by_id[change.messageId]
  if not message then
    return {}
  end
  message.status = change.status or 'done'
  message.toolCalls = change.toolCalls or message.toolCalls
  return { { 'redo', M.find(t, message.seq) } }
end

local function cut(t, after, upto)
  table.insert(t.gone, { after, upto })
  local kept = M.find(t, after)
  if kept == 0 and after >= 0 and t.more then
    return { { 'read' } }
  end
  local removed = #t.messages - kept
  for index = #t.messages, kept + 1, -1 do
    t.by_id[t.messages[index].id] = nil
    t.messages[index] = nil
  end
  t.more = t.more and after >= 0
  t.count = after < 0 and 0 or t.count - removed
  return { { 'reset' }, { 'info' } }
end

-- Takes in a change from the daemon. Returns edits.
function M.apply(t, change)
  local edits = {}
  local kind, fresh = change.kind, change.seq > t.seq
  if kind == 'appended' then
    for _, message in ipairs(change.messages) do
      vim.list_extend(edits, M.put(t, message))
    end
  elseif kind == 'extended' then
    edits = extend(t, change)
  elseif kind == 'finished' then
    edits = finish(t, change)
  elseif kind == 'updated' and fresh then
    M.inform(t, change.session)
    edits = { { 'info' } }
  elseif kind == 'cleared' and fresh then
    edits = cut(t, -1, change.seq)
  elseif kind == 'truncated' and fresh then
    edits = cut(t, change.afterSeq, change.seq)
  end
  t.seq = math.max(t.seq, change.seq)
  return edits
end

return M
