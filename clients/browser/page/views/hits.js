// The hits of a search in one session, to go through one after the other; their words are marked in the messages.

import { h } from '../dom.js'

const MOST = 1000
const PIECES = 200 // different words that are marked
const MARKS = 'found' // in the style sheet

export class HitBar {
  #call
  #go
  #seqs = []
  #place = -1
  #generation = 0
  #mode = 'text'
  #pattern = null // what is marked
  #articles

  /** `search(query, mode, limit)`: in the session; `go(seq)`: shows a message; `articles()`: those that are in the document. */
  constructor(search, go, articles) {
    this.#call = search
    this.#go = go
    this.#articles = articles
    this.input = h('input', { type: 'search', 'aria-label': 'Find in this session', placeholder: 'Find in this session', spellcheck: 'false', autocomplete: 'off' })
    this.status = h('span', { role: 'status' })
    const step = (label, text, by) => h('button', { type: 'button', title: label, 'aria-label': label, onclick: () => this.step(by) }, text)
    this.element = h('form', { class: 'hits', hidden: true }, this.input, step('Previous hit', '↑', -1), step('Next hit', '↓', 1), this.status,
      h('button', { type: 'button', 'aria-label': 'Close the search in this session', onclick: () => this.close() }, '×'))
    this.element.addEventListener('submit', (event) => {
      event.preventDefault()
      this.find(this.input.value.trim(), { go: true, mode: this.#mode })
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
    this.#pattern = null
    this.#generation++
    this.mark()
  }

  /** Search in the session. `go`: to the first hit; otherwise `at`, a hit's seq, is where the user is. `mode`: as in `session/search`. */
  async find(query, { go = false, at = null, mode = 'text' }) {
    this.input.value = query
    this.#mode = mode
    if (query === '') return this.close()
    this.element.hidden = false
    const generation = ++this.#generation
    const { hits, total, incomplete } = await this.#call(query, mode, MOST)
    if (generation !== this.#generation) return
    this.#seqs = hits.filter((hit) => hit.messageId !== null).map((hit) => hit.seq).sort((one, two) => one - two)
    this.more = total > hits.length || incomplete === true
    this.#place = at === null ? -1 : this.#seqs.indexOf(at)
    this.#pattern = patternOf(hits)
    this.mark()
    if (go) await this.step(1)
    else this.#arrive()
  }

  /** Mark the words in the messages that are hits; again after other messages came into the document. */
  mark() {
    if (!('highlights' in CSS)) return
    const ranges = []
    if (this.#pattern !== null) {
      const seqs = new Set(this.#seqs)
      for (const article of this.#articles()) if (seqs.has(Number(article.dataset.seq))) ranges.push(...found(article, this.#pattern))
    }
    CSS.highlights.set(MARKS, new Highlight(...ranges))
  }

  /** The next or previous hit; after the last comes the first. */
  async step(by) {
    const count = this.#seqs.length
    if (count > 0) {
      this.#place = this.#place < 0 && by < 0 ? count - 1 : (this.#place + by + count) % count
      await this.#go(this.#seqs[this.#place])
      this.mark()
    }
    this.#arrive()
  }

  // Unfold the first words that were found in the message.
  #arrive() {
    this.#say()
    const article = this.#articles().find((one) => Number(one.dataset.seq) === this.#seqs[this.#place])
    const first = article && this.#pattern && found(article, this.#pattern)[0]
    for (let at = first?.startContainer.parentElement?.closest('details'); at && article.contains(at); at = at.parentElement.closest('details')) at.open = true
  }

  #say() {
    const count = this.#seqs.length
    const place = this.#place < 0 ? '' : `${this.#place + 1} of `
    this.status.textContent = count === 0 ? 'nothing found' : `${place}${count.toLocaleString()}${this.more ? ' or more' : ''}`
  }
}

// What was found, wherever it is: the words themselves, in any case. Beside a letter only if they were found beside one.
function patternOf(hits) {
  const pieces = new Set()
  for (const { snippet, ranges } of hits) {
    const points = [...snippet]
    for (const [start, end] of ranges) {
      const piece = points.slice(start, end).join('')
      if (piece.trim() === '' || pieces.size >= PIECES) continue
      const [before, after] = [points[start - 1] ?? ' ', points[end] ?? ' '].map((point) => /[\p{L}\p{N}]/u.test(point))
      pieces.add(`${before ? '' : '(?<![\\p{L}\\p{N}])'}${piece.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}${after ? '' : '(?![\\p{L}\\p{N}])'}`)
    }
  }
  return pieces.size === 0 ? null : new RegExp([...pieces].sort((one, two) => two.length - one.length).join('|'), 'giu')
}

// The places of the pattern in a message, as ranges of the document.
function found(article, pattern) {
  const ranges = []
  const nodes = document.createTreeWalker(article.querySelector('.body'), NodeFilter.SHOW_TEXT)
  for (let node = nodes.nextNode(); node !== null; node = nodes.nextNode()) {
    if (node.parentElement.closest('.message') !== article) continue // a result, inside its call
    for (const match of node.data.matchAll(pattern)) ranges.push(new StaticRange({ startContainer: node, startOffset: match.index, endContainer: node, endOffset: match.index + match[0].length }))
  }
  return ranges
}
