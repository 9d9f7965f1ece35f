// A window over a session of any length: a few pages of messages are in the document, spacers represent the rest.
//
// When the view comes near an edge of the window the next page is read (`session/read before:` or `since:`), and pages far from view
// are removed. If the scroll bar is pulled far away, the window is rebuilt there, at the seq of that place. What is in view never
// moves because of what is inserted or removed elsewhere.

import { dayOf, h, oncePerFrame } from '../dom.js'
import { isFolded, nest, nestedIn, unfold } from './calls.js'

const PAGE = 40 // messages read at once
const PAGES = 8 // pages in the document
const NEAR = 2 // views: how early the next page is read
const GUESS = 160 // pixels of a message that is not measured yet
const STAYS_MS = 80 // the window is rebuilt only when the scroll bar rests this long, so that a long pull reads little
const HIGHEST = 8_000_000 // pixels of a spacer; browsers stop drawing somewhat beyond

export class ScrollWindow {
  #read
  #make
  #pages = []
  #size = { count: 0, seq: 0 }
  #before = false
  #after = false
  #busy = false
  #generation = 0
  #anchor = null
  #atEnd = true
  #observer
  #jumping = null

  /**
   * `read(params)`: `session/read` for this session. `make(message)`: its element. `changed()`: after every change of what is in view
   * or of whether the end is.
   */
  constructor({ read, make, changed = () => {} }) {
    this.#read = read
    this.#make = make
    this.changed = changed
    this.top = h('div', { class: 'spacer', 'aria-hidden': 'true' })
    this.bottom = h('div', { class: 'spacer', 'aria-hidden': 'true' })
    this.list = h('div', { class: 'messages', role: 'feed', 'aria-label': 'Messages', 'aria-busy': 'false' })
    this.element = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Conversation' }, this.top, this.list, this.bottom)
    this.element.addEventListener('scroll', oncePerFrame(() => this.#scrolled()), { passive: true })
    this.#observer = new ResizeObserver(() => this.#settle())
    this.#observer.observe(this.list)
    this.#observer.observe(this.element)
  }

  /** Whether the newest message is in view. */
  get atEnd() {
    return this.#atEnd && !this.#after
  }

  /** Begin with the result of `session/open`. */
  begin(result) {
    this.#generation++
    this.#pages = []
    this.list.replaceChildren()
    this.#measure(result.session)
    this.#before = result.hasMore
    this.#after = false
    for (let from = 0; from < result.messages.length; from += PAGE) this.#put(result.messages.slice(from, from + PAGE), 'end')
    this.#trim('start')
    this.toEnd()
  }

  /** Set the present length of the session. */
  #measure({ messageCount, seq }) {
    this.#size = { count: messageCount, seq }
  }

  update(info) {
    this.#measure(info)
    this.#space()
  }

  /** New messages at the end of the session. */
  append(messages) {
    if (this.#after) return // they are read when the window gets there
    for (const message of messages) if (this.find(message.id) === null) this.#insert(message)
    if (this.atEnd) this.#trim('start')
    this.#settle()
    this.changed()
  }

  /** Remove messages for which `test(seq)` is true. */
  remove(test) {
    for (const page of [...this.#pages]) {
      for (const article of [...page.articles]) {
        if (!test(Number(article.dataset.seq))) continue
        article.after(...nestedIn(article))
        article.remove()
        page.articles.splice(page.articles.indexOf(article), 1)
      }
      if (page.articles.length === 0) {
        page.element.remove()
        this.#pages.splice(this.#pages.indexOf(page), 1)
      }
    }
    this.#settle()
    this.changed()
  }

  /** The article of a message that is in the document, by its id; or null. */
  find(id) {
    for (const page of this.#pages) for (const article of page.articles) if (article.messageId === id) return article
    return null
  }

  bySeq(seq) {
    for (const page of this.#pages) for (const article of page.articles) if (Number(article.dataset.seq) === seq) return article
    return null
  }

  get articles() {
    return this.#pages.flatMap((page) => page.articles)
  }

  /** Those that can be seen: without results in a call that is folded. */
  get unfolded() {
    return this.articles.filter((article) => !isFolded(article))
  }

  /** The seq of the first message in view, or null at the end. */
  get place() {
    return this.atEnd || this.#anchor === null ? null : Number(this.#anchor.article.dataset.seq)
  }

  toEnd() {
    this.#atEnd = true
    this.#anchor = null
    this.#settle()
  }

  /** To the newest message, wherever the window is. */
  async goToEnd() {
    if (this.#after) await this.#around({ last: PAGE * 2 }, { atEnd: true })
    else this.toEnd()
  }

  async goToStart() {
    if (this.#before) await this.#around({ since: 0, limit: PAGE * 2 })
    this.element.scrollTop = 0
  }

  /** Bring a message into view; returns its article, or null if the session has no message with this seq. */
  async goTo(seq) {
    if (this.bySeq(seq) === null) await this.#around({ since: Math.max(0, seq - 1 - PAGE / 2), limit: PAGE * 2 })
    const article = this.bySeq(seq)
    if (article === null) return null
    this.#atEnd = false
    unfold(article)
    article.scrollIntoView({ block: 'start' })
    this.#remember()
    return article
  }

  close() {
    this.#generation++
    clearTimeout(this.#jumping)
    this.#observer.disconnect()
  }

  // Reading

  // `first`: the seq that should be at the top, otherwise the first that is read; scrolling meanwhile continues from there.
  async #around(params, { atEnd = false, first = null } = {}) {
    const generation = ++this.#generation
    const begun = this.element.scrollTop
    this.#busy = true
    this.list.setAttribute('aria-busy', 'true')
    try {
      const page = await this.#read(params)
      if (generation !== this.#generation) return
      const meanwhile = this.element.scrollTop - begun
      this.#pages = []
      this.list.replaceChildren()
      const backwards = params.since === undefined
      for (let from = 0; from < page.messages.length; from += PAGE) this.#put(page.messages.slice(from, from + PAGE), 'end')
      this.#before = backwards ? page.hasMore : (page.messages[0]?.seq ?? 1) > 1 && params.since > 0
      this.#after = backwards ? params.before !== undefined : page.hasMore
      this.#anchor = null
      this.#atEnd = atEnd
      this.#space()
      if (atEnd) this.toEnd()
      else if (first === null) this.element.scrollTop = this.list.offsetTop
      else {
        const article = this.articles.find((one) => Number(one.dataset.seq) >= first) ?? this.list
        this.element.scrollTop += article.getBoundingClientRect().top - this.element.getBoundingClientRect().top + meanwhile
      }
      this.#remember()
    } finally {
      if (generation === this.#generation) this.#ready()
    }
    this.#scrolled()
  }

  async #extend(side) {
    if (this.#busy || this.#pages.length === 0) return
    this.#busy = true
    this.list.setAttribute('aria-busy', 'true')
    const generation = this.#generation
    try {
      const start = side === 'start'
      const params = start ? { before: this.#pages[0].from, limit: PAGE } : { since: this.#pages.at(-1).to, limit: PAGE }
      const page = await this.#read(params)
      if (generation !== this.#generation) return
      this.#remember()
      if (page.messages.length > 0) this.#put(page.messages, side)
      if (start) this.#before = page.hasMore
      else this.#after = page.hasMore
      this.#trim(start ? 'end' : 'start')
      this.#settle()
    } catch (error) {
      if (error.kind !== 'disconnected') throw error // it continues when the connection is back and the user scrolls
    } finally {
      if (generation === this.#generation) this.#ready()
    }
    this.#scrolled()
  }

  #ready() {
    this.#busy = false
    this.list.setAttribute('aria-busy', 'false')
    this.changed()
  }

  // Pages

  #put(messages, side) {
    const page = { from: messages[0]?.seq ?? Infinity, to: 0, articles: [], element: h('div', { class: 'page' }) }
    for (const message of messages) this.#add(page, message)
    if (side === 'start') {
      this.#pages.unshift(page)
      this.list.prepend(page.element)
    } else {
      this.#pages.push(page)
      this.list.append(page.element)
    }
    return page
  }

  // Our own message may be known before an earlier one of another client.
  #insert(message) {
    const last = this.#pages.at(-1)
    if (last === undefined || message.seq > last.to) {
      this.#add(last && last.articles.length < PAGE ? last : this.#put([], 'end'), message)
      return
    }
    const page = this.#pages.find((one) => message.seq < one.to)
    if (page === this.#pages[0] && message.seq < page.from && this.#before) return // it is read with those before it
    this.#add(page, message, page.articles.findIndex((article) => Number(article.dataset.seq) > message.seq))
  }

  #add(page, message, place = page.articles.length) {
    const article = this.#make(message)
    article.messageId = message.id
    article.day = dayOf(message.timestamp)
    const later = page.articles.slice(place).find((one) => one.parentElement === page.element)
    if (!nest(article, page.articles.slice(0, place))) page.element.insertBefore(article, later ?? null)
    page.articles.splice(place, 0, article)
    page.from = Math.min(page.from, message.seq)
    page.to = Math.max(page.to, message.seq)
  }

  #trim(side) {
    while (this.#pages.length > PAGES) {
      const page = side === 'start' ? this.#pages.shift() : this.#pages.pop()
      page.element.remove()
      if (side === 'start') this.#before = true
      else this.#after = true
    }
  }

  // Each day's name above its first message that is in the document.
  #days() {
    let last = null
    for (const page of this.#pages) {
      for (const article of page.articles) {
        const { day } = article
        if (article.parentElement !== page.element) continue // a result, inside its call
        const above = article.previousElementSibling?.className === 'day' ? article.previousElementSibling : null
        if (day === last) above?.remove()
        else if (above === null) article.before(h('div', { class: 'day' }, day))
        else if (above.textContent !== day) above.textContent = day
        last = day
      }
      for (const one of page.element.querySelectorAll('.day')) if (one.nextElementSibling?.localName !== 'article') one.remove()
    }
  }

  // Geometry

  #space() {
    this.#days()
    const first = this.#pages[0]?.from ?? 1
    const last = this.#pages.at(-1)?.to ?? 0
    this.top.style.height = `${this.#before ? this.#pixels(first - 1) : 0}px`
    this.bottom.style.height = `${this.#after ? this.#pixels(this.#size.seq - last) : 0}px`
  }

  // The estimated height of that many seqs.
  #pixels(seqs) {
    const dense = this.#size.seq > 0 ? Math.min(1, this.#size.count / this.#size.seq) : 1
    return Math.min(HIGHEST, Math.max(0, Math.round(seqs * dense * this.#average)))
  }

  // The height of a message.
  get #average() {
    const shown = this.#pages.reduce((sum, page) => sum + page.articles.length, 0)
    return shown > 0 && this.list.offsetHeight > 0 ? this.list.offsetHeight / shown : GUESS
  }

  // Move what was in view back to its place, or the end to the end.
  #settle() {
    this.#space()
    if (this.#atEnd && !this.#after) {
      this.element.scrollTop = this.element.scrollHeight
    } else if (this.#anchor?.article.isConnected) {
      const moved = this.#anchor.article.getBoundingClientRect().top - this.#anchor.top
      if (Math.abs(moved) >= 1) this.element.scrollTop += moved
    }
  }

  #remember() {
    const top = this.element.getBoundingClientRect().top
    for (const page of this.#pages) {
      if (page.element.getBoundingClientRect().bottom < top) continue
      const article = page.articles.find((one) => !isFolded(one) && one.getBoundingClientRect().bottom > top)
      if (article) {
        this.#anchor = { article, top: article.getBoundingClientRect().top }
        return
      }
    }
    this.#anchor = null
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.element
    const [begin, end] = [this.list.offsetTop, this.list.offsetTop + this.list.offsetHeight]
    const wasAtEnd = this.#atEnd
    this.#atEnd = !this.#after && scrollTop + clientHeight >= scrollHeight - 8
    this.#remember()
    clearTimeout(this.#jumping)
    if (this.#sought() !== null) this.#jumping = setTimeout(() => this.#jump(), STAYS_MS)
    else if (this.#before && scrollTop < begin + NEAR * clientHeight) this.#extend('start')
    else if (this.#after && scrollTop + clientHeight > end - NEAR * clientHeight) this.#extend('end')
    if (wasAtEnd !== this.#atEnd) this.changed()
  }

  // The seq of a place far outside the window, or null if the view is in the window or so near that the next pages reach it:
  // scrolling faster than they arrive still shows every message in its place.
  #sought() {
    const { scrollTop, clientHeight, scrollHeight } = this.element
    const [begin, end] = [this.list.offsetTop, this.list.offsetTop + this.list.offsetHeight]
    const far = Math.max(clientHeight * 3, PAGE * 2 * this.#average)
    if (this.#before && scrollTop + clientHeight < begin - far) return Math.max(1, Math.round(this.#pages[0].from * scrollTop / begin))
    if (!this.#after || scrollTop <= end + far) return null
    const last = this.#pages.at(-1).to
    return Math.round(last + (this.#size.seq - last) * (scrollTop - end) / Math.max(1, scrollHeight - end))
  }

  // The scroll bar was pulled outside the window: rebuild the window there.
  #jump() {
    const seq = this.#busy ? null : this.#sought()
    if (seq !== null) this.#around({ since: Math.max(0, seq - PAGE), limit: PAGE * 2 }, { first: seq })
  }
}
