// What a search found, grouped by session: the sessions in the order of their best hits, and a few hits of each.

import { h, oneLine, timeElement } from '../dom.js'

const FEW = 3 // hits of a session that are shown at first

export class HitList {
  #app
  #rows
  #selection
  #groups = new Map() // session id -> its elements
  count = 0

  /** `rows`: where the groups go. `selection`: lets a session be chosen. */
  constructor(app, rows, selection) {
    this.#app = app
    this.#rows = rows
    this.#selection = selection
  }

  /** More hits, as in `session/search`. Those of a session that is there already join its group. */
  add(hits) {
    this.count += hits.length
    for (const hit of hits) {
      const group = this.#groups.get(hit.sessionId) ?? this.#begin(hit)
      if (hit.messageId === null && oneLine(hit.snippet) === oneLine(hit.name ?? '')) {
        group.name.replaceChildren(...marked(hit.snippet, hit.ranges))
        continue
      }
      const link = this.#hit(hit)
      if (group.count++ < FEW) group.rest.before(link)
      else group.rest.append(link)
      const hidden = group.rest.childElementCount
      group.more.hidden = hidden === 0 || !group.rest.hidden
      group.more.textContent = `${hidden.toLocaleString()} more in this session`
    }
  }

  /** The sessions whose hits are all shown. */
  get unfolded() {
    return [...this.#groups].filter(([, { rest }]) => !rest.hidden).map(([id]) => id)
  }

  /** Show all hits of a session, if it has any. */
  unfold(sessionId) {
    const group = this.#groups.get(sessionId)
    if (group === undefined) return
    group.rest.hidden = false
    group.more.hidden = true
  }

  #begin(hit) {
    const name = h('span', { class: 'name', dir: 'auto' }, oneLine(hit.name || hit.sessionId))
    const link = h('a', { class: 'row', 'data-id': hit.sessionId, href: this.#app.linkTo(hit.sessionId) }, name)
    const rest = h('div', { hidden: true })
    const more = h('button', { type: 'button', class: 'more', hidden: true, onclick: () => {
      this.unfold(hit.sessionId)
      rest.querySelector('a').focus()
    } })
    const group = { name, rest, more, count: 0 }
    this.#groups.set(hit.sessionId, group)
    this.#rows.append(h('section', { class: 'found-in' }, this.#selection.row(hit.sessionId, oneLine(hit.name || hit.sessionId), link), rest, more))
    return group
  }

  #hit(hit) {
    const seq = hit.messageId === null ? null : hit.seq // what is found in a note, or in a long name, leads to the session
    return h('a', { class: 'row hit', 'data-id': hit.sessionId, 'data-seq': seq, href: this.#app.linkTo(hit.sessionId, seq) },
      h('span', { class: 'snippet', dir: 'auto' }, marked(hit.snippet, hit.ranges)),
      h('span', { class: 'about' }, timeElement(hit.timestamp), hit.role ? ` · ${oneLine(hit.role, 40)}` : ''))
  }
}

// Ranges count code points.
function marked(snippet, ranges) {
  const points = [...snippet]
  const parts = []
  let place = 0
  for (const [start, end] of ranges) {
    parts.push(points.slice(place, start).join(''), h('mark', {}, points.slice(start, end).join('')))
    place = end
  }
  parts.push(points.slice(place).join(''))
  return parts
}
