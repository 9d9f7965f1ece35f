// Two branches side by side: what both have is counted, what differs is shown.

import { h, moment, nameOf } from '../dom.js'
import { messageView } from './message.js'

const PAGE = 500
const MOST = 5000 // messages read of each
const SHOWN = 200 // messages of each that are drawn

export class CompareView {
  #app

  constructor(app, one, two) {
    this.#app = app
    this.ids = [one, two]
    this.common = h('p', { class: 'facts', role: 'status' }, 'Reading both…')
    this.sides = h('div', { class: 'sides' })
    this.element = h('section', { class: 'compare-view scroll', tabindex: 0, 'aria-labelledby': 'compare-title' },
      h('header', { class: 'head' }, h('a', { class: 'back', href: '#/' }, h('span', { 'aria-hidden': 'true' }, '‹ '), 'All sessions'), h('h2', { id: 'compare-title' }, 'Two branches'), this.common),
      this.sides)
  }

  async load() {
    const read = await Promise.all(this.ids.map((sessionId) => this.#read(sessionId)))
    const [one, two] = read.map((side) => side.messages)
    let same = 0
    while (same < one.length && same < two.length && equal(one[same], two[same])) same++
    const more = read.some((side) => side.more) ? ` Only the first ${MOST.toLocaleString()} messages of each were compared.` : ''
    this.common.textContent = `${same.toLocaleString()} messages are the same.${more}`
    this.sides.replaceChildren(...read.map((side) => this.#side(side, same)))
  }

  async #read(sessionId) {
    const { session } = await this.#app.connection.call('session/open', { sessionId, last: 1 })
    await this.#app.connection.call('session/close', { sessionId })
    const messages = []
    let more = true
    while (more && messages.length < MOST) {
      const page = await this.#app.connection.call('session/read', { sessionId, since: messages.at(-1)?.seq ?? 0, limit: PAGE })
      messages.push(...page.messages)
      more = page.hasMore
    }
    return { session, messages, more }
  }

  #side({ session, messages }, same) {
    const rest = messages.slice(same)
    const link = (seq) => this.#app.linkTo(session.sessionId, seq)
    const left = rest.length - SHOWN
    return h('section', { 'aria-label': nameOf(session) },
      h('h3', {}, h('a', { href: this.#app.linkTo(session.sessionId) }, nameOf(session))),
      h('p', { class: 'facts' }, `${about(session)} · `, rest.length === 0 ? 'nothing more' : `${rest.length.toLocaleString()} of its own`),
      rest.slice(0, SHOWN).map((message) => messageView(message, link(message.seq))),
      left > 0 && h('p', {}, h('a', { href: link(rest[SHOWN].seq) }, `${left.toLocaleString()} more`)))
  }
}

// What tells a fork from its parent, which often has the same name.
function about(session) {
  return session.parent ? `forked at #${session.parent.seq} · ${moment(session.updatedAt)}` : moment(session.updatedAt)
}

// A fork keeps ids; a copy in another tool has the words.
function equal(one, two) {
  return one.role === two.role && (one.id === two.id || JSON.stringify(said(one)) === JSON.stringify(said(two)))
}

function said(message) {
  const calls = (message.toolCalls ?? []).map((call) => [call.name, call.arguments])
  return JSON.parse(JSON.stringify([message.content, calls], (_, value) => (typeof value === 'bigint' ? String(value) : value)))
}
