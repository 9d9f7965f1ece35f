-- What needs no daemon.
local t = require('help')
local transcript = require('sessiond.transcript')
local tags = require('sessiond.tags')
local when = require('sessiond.when')

local function info(count, seq)
  return { sessionId = 's', messageCount = count, seq = seq, tags = {} }
end

local function opened()
  local it = transcript.new('s')
  transcript.load(it, {
    session = info(1, 1),
    messages = { { id = 'm1', seq = 1, role = 'user', content = 'one' } },
    hasMore = false,
  })
  return it
end

local function changes()
  return {
    { kind = 'appended', seq = 2, messages = { { id = 'r', seq = 2, role = 'assistant', content = '日', status = 'streaming' } } },
    { kind = 'extended', seq = 3, messageId = 'r', offset = 1, text = '本語' },
    {
      kind = 'appended',
      seq = 5,
      messages = { { id = 'm4', seq = 4, role = 'user', content = 'four' }, { id = 'm5', seq = 5, role = 'user', content = 'five' } },
    },
    { kind = 'extended', seq = 6, messageId = 'r', offset = 3, text = '😀!' },
    { kind = 'finished', seq = 7, messageId = 'r', status = 'done' },
  }
end

local function contents(it)
  return vim.tbl_map(function(message)
    return message.content
  end, it.messages)
end

return {
  {
    'changes that come twice are shown once',
    function()
      for again = 1, #changes() do
        local it = opened()
        for _, change in ipairs(vim.list_extend(vim.list_slice(changes(), 1, again), changes())) do
          transcript.apply(it, change)
        end
        t.equal({ 'one', '日本語😀!', 'four', 'five' }, contents(it))
        t.equal({ 4, 7, 'done' }, { it.count, it.seq, it.by_id.r.status })
      end
    end,
  },
  {
    'our own answer may come before or after changes of others',
    function()
      for place = 1, #changes() + 1 do
        local it = opened()
        local all = changes()
        table.insert(all, place, { own = { id = 'own', seq = 8, role = 'user', content = 'own' } })
        for _, change in ipairs(all) do
          if change.own then
            transcript.put(it, change.own)
          else
            transcript.apply(it, change)
          end
        end
        t.equal({ 'one', '日本語😀!', 'four', 'five', 'own' }, contents(it))
        t.equal(5, it.count)
      end
    end,
  },
  {
    'a gap in a streamed text asks for all again',
    function()
      local it = opened()
      transcript.apply(it, changes()[1])
      t.equal({ { 'read' } }, transcript.apply(it, changes()[4]))
    end,
  },
  {
    'what was cleared does not come back with a late answer',
    function()
      local it = opened()
      transcript.apply(it, { kind = 'cleared', seq = 9 })
      t.equal({}, transcript.put(it, { id = 'late', seq = 8, role = 'user', content = 'x' }))
      transcript.put(it, { id = 'new', seq = 10, role = 'user', content = 'y' })
      t.equal({ { 'y' }, 1 }, { contents(it), it.count })
    end,
  },
  {
    'a truncation before what is loaded asks for all again',
    function()
      local it = transcript.new('s')
      transcript.load(it, { session = info(100, 100), messages = { { id = 'm100', seq = 100, role = 'user', content = 'x' } }, hasMore = true })
      t.equal({ { 'read' } }, transcript.apply(it, { kind = 'truncated', seq = 101, afterSeq = 50 }))
    end,
  },
  {
    'an older page that overlaps adds each message once',
    function()
      local it = transcript.new('s')
      transcript.load(it, { session = info(3, 3), messages = { { id = 'm3', seq = 3, role = 'user', content = '3' } }, hasMore = true })
      local page = {}
      for n = 1, 3 do
        page[n] = { id = 'm' .. n, seq = n, role = 'user', content = tostring(n) }
      end
      t.equal(2, transcript.prepend(it, { messages = page, hasMore = false }))
      t.equal({ { '1', '2', '3' }, 3, false }, { contents(it), it.count, it.more })
    end,
  },
  {
    'tags are added and taken away',
    function()
      t.equal({ 'a', 'c', 'b' }, tags.changed({ 'a', 'x' }, '+c -x b'))
      t.equal({}, tags.changed({ 'a' }, '-a - +'))
    end,
  },
  {
    'times are local, in summer too, and what is none stays',
    function()
      for _, stamp in ipairs({ '2026-01-11T14:30:22.000Z', '2026-07-11T14:30:22.000Z' }) do
        local year, month, day, hour, minute, second = stamp:match('(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)')
        local found = vim.fn.system({ 'date', '-d', ('%s-%s-%s %s:%s:%s UTC'):format(year, month, day, hour, minute, second), '+%Y-%m-%d %H:%M' })
        t.equal(vim.trim(found), when.local_time(stamp))
      end
      t.equal('yesterday', when.local_time('yesterday'))
      t.equal('', when.local_time(nil))
    end,
  },
}
