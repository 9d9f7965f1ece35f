// Questions to the user, in the browser's own <dialog>: it keeps the focus inside, and Escape leaves it.

import { h } from './dom.js'

/**
 * Ask in a dialog. `fields`: elements of a form. Resolves with the form's data, or null if the user cancelled. `work` is called with
 * the data while the dialog is open; its errors are shown there.
 */
export function ask({ title, fields = [], yes = 'Save', work = async () => {} }) {
  return new Promise((resolve) => {
    const problem = h('p', { class: 'problem', role: 'alert' })
    const form = h('form', { method: 'dialog' }, h('h2', { id: 'dialog-title' }, title), ...fields, problem,
      h('div', { class: 'buttons' },
        h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'),
        h('button', { type: 'submit', class: 'main' }, yes)))
    const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, form)
    let answer = null
    form.addEventListener('submit', async (event) => {
      event.preventDefault()
      const data = new FormData(form)
      try {
        await work(data)
        answer = data
        dialog.close()
      } catch (error) {
        problem.textContent = [error.message, error.hint].filter(Boolean).join(': ')
      }
    })
    dialog.addEventListener('close', () => {
      dialog.remove()
      resolve(answer)
    })
    document.body.append(dialog)
    dialog.showModal()
  })
}

/** A labelled text field. */
export function field(label, name, value = '', hint = null) {
  const id = `field-${name}`
  return h('div', { class: 'field' }, h('label', { for: id }, label),
    h('input', { id, name, value, autocomplete: 'off', 'aria-describedby': hint ? `${id}-hint` : null }),
    hint && h('p', { id: `${id}-hint`, class: 'hint' }, hint))
}

const KEYS = [
  ['/', 'search all sessions'], ['j, k', 'next and previous message'], ['g, G', 'first and last message'],
  ['↑ ↓', 'along the list'], ['n', 'new session'], ['u', 'usage of tokens'], ['r', 'write a message'], ['f', 'find in this session'], ['[ ]', 'previous and next hit'], ['s', 'choose several sessions'], ['x', 'choose this one, in the list'], ['Ctrl+Enter', 'send it'], ['Esc', 'back to the list'],
  ['?', 'this help'],
]

export function showKeys() {
  const rows = KEYS.map(([key, what]) => h('tr', {}, h('th', { scope: 'row' }, h('kbd', {}, key)), h('td', {}, what)))
  const close = h('button', { type: 'submit', class: 'main' }, 'Close')
  const dialog = h('dialog', { 'aria-labelledby': 'keys-title' },
    h('form', { method: 'dialog' }, h('h2', { id: 'keys-title' }, 'Keys'), h('table', {}, h('tbody', {}, rows)), h('div', { class: 'buttons' }, close)))
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}
