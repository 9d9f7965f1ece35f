// What goes on in a session at the moment, and the question that it asks, to be answered here.

import { h, oneLine } from '../dom.js'

export class Doing {
  #answer
  #asked = null // id of the question that is shown

  /** `answer(questionId, {choice} or {text})` sends the answer. */
  constructor(answer) {
    this.#answer = answer
    this.words = h('p', { class: 'words', role: 'status', dir: 'auto' })
    this.choices = h('div', { class: 'choices', role: 'group', 'aria-label': 'Answer' })
    this.element = h('div', { class: 'doing', hidden: true }, this.words, this.choices)
  }

  /** `activity`: as in the session's info; nothing if nothing goes on. */
  show(activity) {
    this.element.hidden = !activity
    this.element.classList.toggle('waits', activity?.state === 'waiting')
    const words = activity ? [oneLine(activity.client, 60), doing(activity), activity.text && oneLine(activity.text, 2000)].filter(Boolean).join(' · ') : ''
    if (this.words.textContent !== words) this.words.textContent = words // a screen reader says it again where it is set again
    const question = activity?.question ?? null
    if (question?.id === this.#asked) return // what is being typed stays
    this.#asked = question?.id ?? null
    this.choices.replaceChildren(...(question === null ? [] : question.choices ? this.#buttons(question) : [this.#field(question)]))
  }

  #buttons({ id, choices }) {
    return choices.map((choice) => h('button', { type: 'button', class: choice.kind ?? null, onclick: () => this.#answer(id, { choice: choice.id }) }, oneLine(choice.label)))
  }

  #field({ id }) {
    const input = h('input', { 'aria-label': 'Your answer', autocomplete: 'off', dir: 'auto' })
    const form = h('form', {}, input, h('button', { type: 'submit' }, 'Answer'))
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      if (input.value.trim() !== '') this.#answer(id, { text: input.value })
    })
    return form
  }
}

/** `waits: permission`, `works`; nothing if nothing goes on. */
export function doing(activity) {
  if (!activity) return ''
  if (activity.state !== 'waiting') return 'works'
  return activity.waitingFor ? `waits: ${oneLine(activity.waitingFor, 40)}` : 'waits'
}
