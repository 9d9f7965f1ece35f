-- Conversations kept by sessiond. Commands only; their code is loaded when the first of them is used.

if vim.g.loaded_sessiond then
  return
end
vim.g.loaded_sessiond = 1

if vim.fn.has('nvim-0.7.2') == 0 then
  vim.notify('sessiond needs Neovim 0.7.2 or later', vim.log.levels.WARN)
  return
end

local function command(name, options, run)
  vim.api.nvim_create_user_command('Sessiond' .. name, function(arguments)
    run(require('sessiond'), arguments)
  end, options)
end

local function complete(module)
  return function(...)
    return require('sessiond.' .. module).complete(...)
  end
end

command('New', { nargs = '?' }, function(s, a) s.new(a.mods, a.args) end)
command('Switch', { nargs = '?', complete = complete('pick') }, function(s, a) s.switch(a.mods, a.args) end)
command('Search', { nargs = '+', bang = true }, function(s, a) s.search(a.args, a.bang) end)
command('Name', { nargs = 1 }, function(s, a) s.name(a.args) end)
command('Tag', { nargs = '+', complete = complete('tags') }, function(s, a) s.tag(a.args) end)
command('Say', { nargs = '?', range = true }, function(s, a) s.say(a.args, a.range > 0 and { a.line1, a.line2 } or nil) end)
command('Save', { bar = true }, function(s) s.save() end)
command('Close', { bar = true, bang = true }, function(s, a) s.close(a.bang) end)
command('Fork', { nargs = '?', bang = true }, function(s, a) s.fork(a.mods, a.args, a.bang) end)
command('Resume', { nargs = 1, bang = true, complete = complete('resume') }, function(s, a) s.resume(a.mods, a.args, a.bang) end)
command('Answer', { nargs = '?' }, function(s, a) s.answer(a.args) end)
command('Archive', { bar = true, bang = true }, function(s, a) s.archive(not a.bang) end)
command('Older', { bar = true, bang = true }, function(s, a) s.older(a.bang) end)
command('Draft', { bar = true }, function(s) s.draft() end)

local group = vim.api.nvim_create_augroup('sessiond', {})
vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = 'sessiond://*',
  callback = function(event) require('sessiond.room').read(event.match, event.buf) end,
})
vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = 'sessiond-draft://*',
  callback = function(event) require('sessiond.draft').read(event.match, event.buf) end,
})
