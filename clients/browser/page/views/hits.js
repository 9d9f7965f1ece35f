// The hits of a search in one session, to go through one after the other.

import { h } from '../dom.js'

const MOST = 1000

export class HitBar {
  #call
  #go
  #seqs = []
  #place = -1
  #generation = 0

  /** `call`: a request about the session; `go`: shows the message of a seq. */
  constructor(call, go) {
    this.#call = call
    this.#go = go
    this.input = h('input', { type: 'search', 'aria-label': 'Find in this session', placeholder: 'Find in this session', spellcheck: 'false', autocomplete: 'off' })
    this.status = h('span', { role: 'status' })
    const step = (label, text, by) => h('button', { type: 'button', title: label, 'aria-label': label, onclick: () => this.step(by) }, text)
    this.element = h('form', { class: 'hits', hidden: true }, this.input, step('Previous hit', '↑', -1), step('Next hit', '↓', 1), this.status,
      h('button', { type: 'button', 'aria-label': 'Close the search in this session', onclick: () => this.close() }, '×'))
    this.element.addEventListener('submit', (event) => {
      event.preventDefault()
      this.find(this.input.value.trim(), true)
    })
  }

  get open() {
    return !this.element.hidden
  }

  /** Show the field, with what was searched for last. */
  ask() {
    this.element.hidden = false
    this.input.focus()
    this.input.select()
  }

  close() {
    this.element.hidden = true
    this.#seqs = []
    this.#generation++
  }

  /** Look for the words. `go`: to the first hit; otherwise `at`, a hit's seq, is where the user is. */
  async find(query, go, at = null) {
    this.input.value = query
    if (query === '') return this.close()
    this.element.hidden = false
    const generation = ++this.#generation
    const { hits, total, incomplete } = await this.#call('session/search', query, MOST)
    if (generation !== this.#generation) return
    this.#seqs = hits.filter((hit) => hit.messageId !== null).map((hit) => hit.seq).sort((one, two) => one - two)
    this.more = total > hits.length || incomplete === true
    this.#place = at === null ? -1 : this.#seqs.indexOf(at)
    if (go) await this.step(1)
    else this.#say()
  }

  /** The next or previous hit; after the last comes the first. */
  async step(by) {
    const count = this.#seqs.length
    if (count > 0) {
      this.#place = this.#place < 0 && by < 0 ? count - 1 : (this.#place + by + count) % count
      await this.#go(this.#seqs[this.#place])
    }
    this.#say()
  }

  #say() {
    const count = this.#seqs.length
    const place = this.#place < 0 ? '' : `${this.#place + 1} of `
    this.status.textContent = count === 0 ? 'nothing found' : `${place}${count.toLocaleString()}${this.more ? ' or more' : ''}`
  }
}
