-- Replays one wire transcript ($SESSIOND_WIRE, see tests/wire/README.md) over this plugin's own connections.
local t = require('help')

local clients, asked, names = {}, {}, {}

local function client(who)
  clients[who] = clients[who] or t.other()
  return clients[who]
end

local function decode(json)
  return json == '' and {} or vim.json.decode(json)
end

local function filled(given)
  if type(given) == 'string' then
    return names[given] or given
  elseif type(given) ~= 'table' then
    return given
  elseif next(given) == nil then
    return given -- as it was decoded: a list or an object
  end
  return vim.tbl_map(filled, given)
end

local function match(expected, found, where)
  if expected == '...' then
    return
  elseif type(expected) == 'string' and vim.startswith(expected, '$') then
    names[expected] = names[expected] or found
    t.equal(names[expected], found, where)
  elseif type(expected) == 'table' and next(expected) ~= nil then
    if vim.tbl_islist(expected) then
      t.equal(#expected, #found, where)
    end
    for key, value in pairs(expected) do
      -- vim.lsp.rpc leaves out what is null in an object.
      if value == vim.NIL then
        assert(found[key] == nil or found[key] == vim.NIL, where .. '.' .. key)
      else
        assert(found[key] ~= nil, ('%s.%s is missing in %s'):format(where, key, vim.inspect(found)))
        match(value, found[key], where .. '.' .. key)
      end
    end
  elseif type(expected) == 'table' then
    -- {} matches any object, [] an empty list.
    assert(type(found) == 'table', where)
  else
    t.equal(expected, found, where)
  end
end

local function answer(who)
  t.wait('an answer for ' .. who, function()
    return asked[who].done
  end)
  return asked[who]
end

local function notification(who, method)
  local heard = client(who).heard
  local found
  t.wait(method, function()
    while #heard > 0 and not found do
      local one = table.remove(heard, 1)
      found = one[1] == method and one[2] or nil
    end
    return found
  end)
  return found
end

local function play(line)
  local who, mark, rest = line:sub(1, 1), line:sub(2, 2), vim.trim(line:sub(3))
  local silently = mark == '>' and vim.startswith(rest, '!')
  if silently then
    rest = vim.trim(rest:sub(2))
  end
  local word, json = rest:match('^(%S*)%s*(.*)$')
  if mark == '-' then
    clients[who]:close()
    clients[who] = nil
  elseif silently then
    client(who):notify(word, filled(decode(json)))
  elseif mark == '>' then
    local pending = {}
    asked[who] = pending
    client(who):request(word, filled(decode(json)), function(failure, result)
      pending.done, pending.failure, pending.result = true, failure, result
    end)
  elseif mark == '<' then
    t.equal(nil, answer(who).failure)
    match(decode(rest), asked[who].result, 'result')
  elseif mark == '!' then
    t.equal(word, (answer(who).failure or {}).kind)
    match(decode(json), asked[who].failure, 'error.data')
  elseif mark == '*' then
    match(decode(json), notification(who, word), word)
  else
    error('no line of a transcript')
  end
end

return {
  {
    'the daemon answers as the transcript says',
    function()
      for _, line in ipairs(vim.fn.readfile(vim.env.SESSIOND_WIRE)) do
        if vim.trim(line) ~= '' and not vim.startswith(line, '#') then
          local ok, problem = pcall(play, line)
          assert(ok, ('%s\n%s'):format(line, problem))
        end
      end
    end,
  },
}
