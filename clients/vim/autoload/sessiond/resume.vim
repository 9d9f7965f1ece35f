vim9script
# Goes on with a session in another tool: `sessiond resume` in a terminal.

import autoload './client.vim'
import autoload './say.vim'

const TOOLS = ['aider', 'claude', 'cline', 'codex', 'gemini', 'llm', 'opencode', 'pi', 'qwen']

# Those that are installed come first.
export def Complete(lead: string, line: string, pos: number): list<string>
  var found = filter(copy(TOOLS), (_, tool) => stridx(tool, lead) == 0)
  return sort(found, (one, other) => executable(other) - executable(one))
enddef

# Runs the command in a terminal window; with `yank_only` it goes into the unnamed register.
export def Resume(mods: string, id: string, tool: string, yank_only: bool)
  if index(TOOLS, tool) < 0
    say.Error('not resumed', {message: $'{tool} is not a tool that can go on with a session', hint: join(TOOLS, ', ')})
    return
  endif
  var command = client.Command() + ['resume', id, '--in', tool, '--run']
  if yank_only
    var line = join(mapnew(command, (_, word) => word =~# '^[A-Za-z0-9._/-]\+$' ? word : shellescape(word)))
    setreg('"', line)
    echo line
    return
  endif
  if !has('terminal')
    say.Error('not resumed', {message: 'this Vim has no terminal', hint: ':SessiondResume! gives the command'})
    return
  endif
  execute $'{mods} new'
  term_start(command, {curwin: true, term_name: $'sessiond resume --in {tool}'})
enddef
