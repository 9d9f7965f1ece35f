-- A transcript in its buffer. Line 1 says where it begins; then each message: a line with role and time, its text, an empty line.
--
-- `rows` of a message is the number of its lines. Lines are counted from the end, where almost everything happens.
local when = require('sessiond.when')

local M = {}

M.MARK = '▌ '

local function one_line(text)
  return (text:gsub('%c+', ' '))
end

local function split(text)
  return vim.split(text, '\n', { plain = true })
end

-- Older Neovims write `\/` for a slash.
local ESCAPED = vim.json.encode('/') ~= '"/"'

local function json(value)
  local text = vim.json.encode(value)
  return ESCAPED and text:gsub('\\/', '/') or text
end

local function top(t)
  if not t.more then
    local name = t.info.name
    return '· ' .. one_line(name and ('%s (%s)'):format(name, t.id) or t.id)
  end
  return ('· %d older messages: come to this line, or :SessiondOlder'):format(math.max(t.count - #t.messages, 1))
end

local function head(message)
  local by = type(message.author) == 'string' and message.author ~= '' and (' (%s)'):format(message.author) or ''
  local parts = { message.role .. by }
  if message.toolCallId then
    parts[#parts + 1] = 'result of ' .. message.toolCallId
  end
  parts[#parts + 1] = when.local_time(message.timestamp)
  if message.status and message.status ~= 'done' then
    parts[#parts + 1] = message.status == 'streaming' and '…' or message.status
  end
  return M.MARK .. one_line(table.concat(parts, ' · '))
end

local function block(value)
  if type(value) == 'table' and type(value.text) == 'string' then
    return split(value.text)
  end
  return { one_line(type(value) == 'string' and value or json(value)) }
end

local function rendered(message)
  local lines = { head(message) }
  if message.thinking and message.thinking ~= '' then
    for _, line in ipairs(split(message.thinking)) do
      lines[#lines + 1] = '> ' .. line
    end
  end
  if type(message.content) == 'string' then
    vim.list_extend(lines, split(message.content))
  else
    for _, value in ipairs(message.content) do
      vim.list_extend(lines, block(value))
    end
  end
  for _, call in ipairs(message.toolCalls or {}) do
    local given = type(call.arguments) == 'string' and call.arguments or json(call.arguments)
    lines[#lines + 1] = one_line(('→ %s(%s)'):format(call.name, given))
  end
  lines[#lines + 1] = ''
  message.rows = #lines
  return lines
end

local function change(buf, run)
  vim.bo[buf].modifiable = true
  run()
  vim.bo[buf].modifiable = false
  vim.bo[buf].modified = false
end

local function move_to(win, line)
  vim.api.nvim_win_set_cursor(win, { line, 0 })
end

local function at_end(win, buf)
  local visual = win == vim.api.nvim_get_current_win() and vim.fn.mode():match('^[vVsS\22\19]')
  return not visual and vim.api.nvim_win_get_cursor(win)[1] == vim.api.nvim_buf_line_count(buf)
end

local function set_top(buf, t)
  if vim.api.nvim_buf_get_lines(buf, 0, 1, false)[1] ~= top(t) then
    vim.api.nvim_buf_set_lines(buf, 0, 1, false, { top(t) })
  end
end

-- The last line of the message at `index`, where the next one begins. A message that is not painted yet has no rows.
local function line_after(buf, t, index)
  local line = vim.api.nvim_buf_line_count(buf)
  for later = #t.messages, index + 1, -1 do
    line = line - (t.messages[later].rows or 0)
  end
  return line
end

-- Only what differs is changed, so that cursors in the text remain where they are.
local function redo(buf, t, index)
  local last = line_after(buf, t, index)
  local first = last - t.messages[index].rows
  local old = vim.api.nvim_buf_get_lines(buf, first, last, false)
  local lines = rendered(t.messages[index])
  local same = 0
  while same < #lines and same < #old and lines[same + 1] == old[same + 1] do
    same = same + 1
  end
  vim.api.nvim_buf_set_lines(buf, first + same, last, false, vim.list_slice(lines, same + 1))
end

local function grow(buf, t, index, text)
  local message = t.messages[index]
  if message.toolCalls then
    return redo(buf, t, index)
  end
  -- The line before the empty one is the last of the text.
  local last = line_after(buf, t, index) - 1
  local lines = split(text)
  lines[1] = vim.api.nvim_buf_get_lines(buf, last - 1, last, false)[1] .. lines[1]
  vim.api.nvim_buf_set_lines(buf, last - 1, last, false, lines)
  message.rows = message.rows + #lines - 1
end

-- Paints everything; windows that show the buffer go to its end.
function M.reset(buf, t)
  local lines = { top(t) }
  for _, message in ipairs(t.messages) do
    vim.list_extend(lines, rendered(message))
  end
  change(buf, function()
    vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  end)
  for _, win in ipairs(vim.fn.win_findbuf(buf)) do
    move_to(win, #lines)
  end
end

-- Paints the edits that one change made (transcript.lua); windows that were at the end remain there.
function M.paint(buf, t, edits)
  if not vim.api.nvim_buf_is_loaded(buf) then
    return
  end
  local following = vim.tbl_filter(function(win)
    return at_end(win, buf)
  end, vim.fn.win_findbuf(buf))
  change(buf, function()
    for _, edit in ipairs(edits) do
      if edit[1] == 'insert' then
        local line = line_after(buf, t, edit[2])
        vim.api.nvim_buf_set_lines(buf, line, line, false, rendered(t.messages[edit[2]]))
      elseif edit[1] == 'grow' then
        grow(buf, t, edit[2], edit[3])
      elseif edit[1] == 'redo' then
        redo(buf, t, edit[2])
      end
    end
    set_top(buf, t)
  end)
  for _, win in ipairs(following) do
    move_to(win, vim.api.nvim_buf_line_count(buf))
  end
end

-- `count` older messages were inserted before the others. Windows keep showing the same text.
function M.prepended(buf, t, count)
  local lines = {}
  for index = 1, count do
    vim.list_extend(lines, rendered(t.messages[index]))
  end
  local cursors = {}
  for _, win in ipairs(vim.fn.win_findbuf(buf)) do
    cursors[win] = vim.api.nvim_win_get_cursor(win)
  end
  change(buf, function()
    vim.api.nvim_buf_set_lines(buf, 1, 1, false, lines)
    set_top(buf, t)
  end)
  for win, cursor in pairs(cursors) do
    -- From the first line to the reader's previous place: the first message that was there.
    local line = cursor[1] == 1 and #lines + 2 or cursor[1] + #lines
    vim.api.nvim_win_set_cursor(win, { math.min(line, vim.api.nvim_buf_line_count(buf)), cursor[2] })
  end
end

-- The line where a message begins.
function M.line_of(buf, t, index)
  return line_after(buf, t, index - 1) + 1
end

-- The index of the message that a line belongs to; 0 for the first line.
function M.message_at(buf, t, line)
  local first = vim.api.nvim_buf_line_count(buf) + 1
  for index = #t.messages, 1, -1 do
    first = first - t.messages[index].rows
    if first <= line then
      return index
    end
  end
  return 0
end

function M.show(win, line)
  move_to(win, line)
  vim.api.nvim_win_call(win, function()
    vim.cmd('normal! zt')
  end)
end

return M
