// How to go on with a session in another tool: a page must not write other programs' files, so it shows the command.

import { ask } from '../dialogs.js'
import { h } from '../dom.js'
import { copy } from './download.js'

const TOOLS = ['aider', 'claude', 'cline', 'codex', 'gemini', 'llm', 'opencode', 'pi', 'qwen']

/** Ask for the tool and put the command onto the clipboard. */
export function resumeIn(sessionId, say) {
  const line = (tool) => `sessiond resume ${sessionId} --in ${tool} --run` // an id has nothing that a shell would read
  const shown = h('code', { id: 'resume-command', class: 'command', tabindex: 0, onclick: () => getSelection().selectAllChildren(shown) }, line(TOOLS[1]))
  const select = h('select', { id: 'field-tool', name: 'tool', 'aria-describedby': 'resume-command resume-hint', autofocus: true },
    TOOLS.map((tool) => h('option', { value: tool, selected: tool === TOOLS[1] }, tool)))
  select.addEventListener('change', () => { shown.textContent = line(select.value) })
  return ask({
    title: 'Resume in…', yes: 'Copy the command',
    fields: [
      h('div', { class: 'field' }, h('label', { for: 'field-tool' }, 'Tool'), select), h('p', {}, 'Run this in a terminal:'), shown,
      h('p', { id: 'resume-hint', class: 'hint' }, 'The tool must be installed there. ', h('code', {}, 'sessiond resume --targets'), ' lists those that are.'),
    ],
    work: async (data) => {
      try {
        await copy(line(data.get('tool')))
      } catch (error) {
        throw Object.assign(error, { hint: 'select the command and copy it yourself' })
      }
      say('the command is on the clipboard')
    },
  })
}
