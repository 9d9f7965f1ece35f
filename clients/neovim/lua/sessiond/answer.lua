-- Answers what an agent asks: in the session of this buffer, or else in one that waits for you.

local client = require('sessiond.client')
local pick = require('sessiond.pick')
local say = require('sessiond.say')

local M = {}

local PAGE = 1000

local function printable(text)
  return (text:gsub('%c+', ' '))
end

-- What is asked, and by whom.
local function words(session)
  local activity = session.activity
  return printable(activity.client .. ': ' .. (activity.text or activity.waitingFor or '?'))
end

local function send(session, answer)
  local params = vim.tbl_extend('error', { sessionId = session.sessionId, questionId = session.activity.question.id }, answer)
  client.request('session/answer', params, function(failure, answered)
    if failure then
      say.error('not answered', failure)
    elseif not answered.accepted then
      say.info('this was answered before, or it is not asked any more')
    end
  end)
end

-- The choice that has this id or label.
local function choose(session, choices, answer)
  for _, key in ipairs({ 'id', 'label' }) do
    local found = vim.tbl_filter(function(choice) return vim.fn.tolower(choice[key]) == vim.fn.tolower(answer) end, choices)
    if #found == 1 then
      return send(session, { choice = found[1].id })
    end
  end
  local ids = vim.tbl_map(function(choice) return choice.id end, choices)
  say.error('not answered', { message = answer .. ' cannot be chosen', hint = table.concat(ids, ', ') })
end

local function ask(session, answer)
  local choices = session.activity.question.choices or {}
  if #choices == 0 and answer ~= '' then
    send(session, { text = answer })
  elseif #choices == 0 then
    vim.ui.input({ prompt = words(session) .. ' ' }, function(text)
      if text and text ~= '' then
        send(session, { text = text })
      end
    end)
  elseif answer ~= '' then
    choose(session, choices, answer)
  else
    local options = { prompt = words(session), format_item = function(choice) return printable(choice.label) end }
    vim.ui.select(choices, options, function(choice)
      if choice then
        send(session, { choice = choice.id })
      end
    end)
  end
end

-- `here` is the id of this buffer's session, or nil. Without an answer the user is asked for it.
function M.answer(here, answer)
  client.request('session/list', { limit = PAGE, filter = { activity = 'waiting' } }, function(failure, page)
    if failure then
      return say.error('cannot list the sessions', failure)
    end
    local asked = vim.tbl_filter(function(session) return session.activity.question ~= nil end, page.sessions)
    local own = vim.tbl_filter(function(session) return session.sessionId == here end, asked)
    if #asked == 0 then
      say.info('nothing is asked in any session')
    elseif #own > 0 or #asked == 1 then
      ask(own[1] or asked[1], answer)
    else
      pick.menu(asked, function(id)
        for _, session in ipairs(asked) do
          if session.sessionId == id then
            return ask(session, answer)
          end
        end
      end)
    end
  end)
end

return M
