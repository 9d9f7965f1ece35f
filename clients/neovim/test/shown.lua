-- Writes what Neovim shows of each session into $SESSIOND_WIRE.shown. $SESSIOND_WIRE names a file that lists the sessions, one a line:
-- the id and how many messages it has.
local t = require('help')

return {
  {
    'shown',
    function()
      local shown = {}
      for _, line in ipairs(vim.fn.readfile(vim.env.SESSIOND_WIRE)) do
        local id, count = line:match('(%S+) (%d+)')
        vim.cmd('SessiondSwitch ' .. id)
        t.wait(id .. ' is open', function()
          return vim.api.nvim_buf_get_name(0) == 'sessiond://' .. id and (#t.heads() > 0 or count == '0')
        end)
        vim.cmd('SessiondOlder!')
        t.wait(id .. ' is shown', function()
          return #t.heads() == tonumber(count)
        end)
        vim.list_extend(shown, vim.api.nvim_buf_get_lines(0, 1, -1, false))
        shown[#shown + 1] = '\f'
      end
      vim.fn.writefile(shown, vim.env.SESSIOND_WIRE .. '.shown')
    end,
  },
}
