// All sessions: the newest first under their days, search as you type, filters, and a timeline of months to go back by.

import { counted, dayOf, h, nameOf, oneLine, timeElement, timeOfDay } from '../dom.js'
import { doing } from './doing.js'
import { HitList } from './found.js'
import { Selection } from './selection.js'

const PAGE = 60
const WAIT_MS = 120 // after the last key before it is searched
const SOON_MS = 500 // from one reading of a list that changes all the time to the next
const AGAIN_MS = 2000 // the same for a search, which costs more
const OFFERED = 200 // values that a filter's field offers
const MONTHS_FROM = 20_000 // sessions at most that the timeline counts
const MODES = { text: 'Words', regex: 'Pattern', semantic: 'Meaning' } // of a search, as on the wire
const MONTH = new Intl.DateTimeFormat(undefined, { month: 'long', year: 'numeric', timeZone: 'UTC' })

export class ListView {
  #app
  #filter = { archived: false, deleted: false }
  #month = null
  #query = ''
  #mode = 'text'
  #cursor = null
  #abort = null
  #timer = null
  #day = ''
  #generation = 0
  #stale = false // something in it may be new
  #later = null
  #counted = '' // the ids of the first page when the months were counted
  current = [null, null] // session and seq
  known = {} // filter -> values that were seen

  /** `element`: the list's place; `input`: the search field in the page's head. */
  constructor(app, element, input) {
    this.#app = app
    this.element = element
    this.input = input
    this.found = h('div', { id: 'found', class: 'found', role: 'status' })
    this.modes = h('div', { class: 'modes', role: 'group', 'aria-label': 'Search by', hidden: true },
      Object.entries(MODES).map(([mode, label]) => h('button', { type: 'button', 'data-mode': mode, 'aria-pressed': String(mode === 'text'), onclick: () => this.#by(mode) }, label)))
    this.rows = h('div', { class: 'rows' })
    this.selection = new Selection(app, () => this.load())
    this.more = h('button', { type: 'button', class: 'more', hidden: true, onclick: () => this.#next() }, 'More')
    this.months = h('ol', { class: 'months', 'aria-label': 'Months' })
    this.timeline = h('details', { class: 'timeline' }, h('summary', {}, 'Timeline'), this.months)
    this.timeline.addEventListener('toggle', () => this.timeline.open && this.#count())
    element.append(
      h('h2', { class: 'hidden' }, 'All sessions'),
      h('div', { class: 'actions' }, h('button', { type: 'button', class: 'main', onclick: () => app.create() }, 'New session'), this.selection.toggle),
      this.selection.bar,
      this.#filters(), this.timeline, this.modes, this.found, this.rows, this.more)
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.#next(), { rootMargin: '400px' }).observe(this.more)
    input.addEventListener('input', () => this.#soon())
    input.form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.rows.querySelector('a')?.focus()
    })
    element.addEventListener('keydown', (event) => this.#along(event))
    document.addEventListener('visibilitychange', () => this.#stale && this.refresh())
  }

  /** The daemon says that something in the list is new. */
  told() {
    this.#stale = true
    this.#later ??= setTimeout(() => this.refresh(), this.#query === '' ? SOON_MS : AGAIN_MS)
  }

  /** Read the list again if it is visible, and leave it alone if nothing is new. */
  async refresh() {
    clearTimeout(this.#later)
    this.#later = null
    this.#stale = true
    if (document.hidden || this.#app.connection?.state !== 'open' || this.#cursor === undefined) return
    const generation = this.#generation
    const { signal } = this.#abort
    this.#stale = false
    try {
      await this.#listen()
      const shown = this.#query === '' ? this.rows.querySelectorAll('.row').length : this.hits?.count ?? 0
      const result = await this.#ask(null, signal, Math.max(PAGE, Math.min(1000, shown)))
      const now = fingerprint(result)
      if (generation !== this.#generation || now === this.last) return
      this.#show(result, this.hits?.unfolded)
    } catch (error) {
      if (!signal.aborted && error.kind !== 'disconnected') this.#app.fail(error)
    }
  }

  // Before a list is read, so that whatever comes after it is told, by one notification.
  async #listen() {
    await this.#app.connection.call('session/listChanged', { tell: true })
    this.#app.attempt(() => this.#app.session?.look?.())
  }

  /** The connection is open: read the list, or what is new in it. */
  begin() {
    return this.#generation === 0 || this.#query !== '' ? this.load() : this.refresh()
  }

  /** Start again: the first page of the list, or of the search. */
  async load() {
    this.#abort?.abort()
    const abort = (this.#abort = new AbortController())
    const generation = ++this.#generation
    this.#query = this.input.value.trim()
    this.modes.hidden = this.#query === ''
    this.#stale = false
    try {
      await this.#listen()
      const result = await this.#ask(null, abort.signal)
      if (generation === this.#generation) this.#show(result)
    } catch (error) {
      if (abort.signal.aborted || error.kind === 'disconnected') return
      if (this.#query !== '') this.#cursor = undefined // it would fail again
      this.rows.replaceChildren() // the hits of the previous search
      this.more.hidden = true
      const message = error.message.replace(/^(query|mode): /, '') // the names of parameters
      this.found.textContent = [message, error.hint].filter(Boolean).join(': ')
    }
  }

  /** What is searched for now; empty while the list is shown. */
  get query() {
    return this.#query
  }

  /** How it is searched: `text`, `regex` or `semantic`. */
  get mode() {
    return this.#mode
  }

  /** A session was changed here. */
  changed() {
    this.refresh()
  }

  /** Mark the session that is open, and the hit in it that is shown. */
  mark(sessionId, seq = null) {
    this.current = [sessionId, seq]
    for (const row of this.rows.querySelectorAll('a.row')) {
      const { id, seq: at } = row.dataset
      if (id === sessionId && (at === undefined || Number(at) === seq)) row.setAttribute('aria-current', at === undefined ? 'page' : 'location')
      else row.removeAttribute('aria-current')
    }
  }

  #by(mode) {
    this.#mode = mode
    for (const button of this.modes.children) button.setAttribute('aria-pressed', String(button.dataset.mode === mode))
    this.load()
  }

  #soon() {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.load(), WAIT_MS)
  }

  #wanted() {
    const { archived, deleted, waiting, store, model, tag, tool, cwd } = this.#filter
    const [since, until] = this.#month ?? []
    return { ...(waiting && this.#query === '' && { activity: 'waiting' }), ...(archived && { archived }), ...(deleted && { deleted }), ...(store && { store }), ...(model && { model }), ...(tag && { tags: [tag] }), ...(tool && { tool }), ...(cwd && { cwd }), ...(since && { since, until }) }
  }

  #ask(cursor, signal, limit = PAGE) {
    const { role } = this.#filter
    const params = { limit, filter: this.#wanted(), ...(cursor && { cursor }) }
    if (this.#query === '') return this.#app.connection.call('session/list', params, { signal })
    return this.#app.connection.call('session/search', { ...params, query: this.#query, mode: this.#mode, filter: { ...params.filter, ...(role && { role }) } }, { signal })
  }

  async #next() {
    if (!this.#cursor || this.more.disabled) return
    this.more.disabled = true
    const generation = this.#generation
    try {
      const result = await this.#ask(this.#cursor)
      if (generation === this.#generation) this.#add(result)
    } catch (error) {
      if (error.kind !== 'disconnected') this.#app.fail(error)
    } finally {
      this.more.disabled = false
    }
  }

  // `unfolded`: sessions of which all hits are shown, as before.
  #show(result, unfolded = []) {
    const focused = this.rows.contains(document.activeElement) ? document.activeElement.dataset.id : null
    this.rows.replaceChildren()
    this.hits = new HitList(this.#app, this.rows, this.selection)
    this.#day = ''
    this.last = fingerprint(result)
    this.#add(result)
    for (const id of unfolded) this.hits.unfold(id)
    if (this.#query === '' && this.timeline.open) this.#countAgain(result.sessions)
    if (this.#query !== '') this.found.textContent = `${result.total.toLocaleString()} found${result.incomplete ? ' so far: the index is being built' : ''}`
    else if (result.sessions.length > 0) this.found.replaceChildren()
    else if (Object.keys(this.#wanted()).length > 0) this.found.textContent = 'No sessions here.'
    else this.found.replaceChildren(...FIRST())
    if (focused) this.rows.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus()
  }

  #add(result) {
    this.#cursor = result.nextCursor
    this.more.hidden = result.nextCursor === null
    this.#offer(result.sessions ?? [])
    if (this.#query === '') for (const session of result.sessions) this.#put(session.updatedAt, this.#row(session))
    else this.hits.add(result.hits)
    this.mark(...this.current)
  }

  #put(stamp, row) {
    const day = dayOf(stamp)
    if (day !== this.#day) this.rows.append(h('h3', { class: 'day' }, (this.#day = day)))
    this.rows.append(row)
  }

  #row(session) {
    const link = h('a', { class: 'row', 'data-id': session.sessionId, href: this.#app.linkTo(session.sessionId) },
      h('span', { class: 'name', dir: 'auto' }, nameOf(session)),
      session.activity && h('span', { class: `now ${session.activity.state}`, title: oneLine(session.activity.text ?? '') }, doing(session.activity)),
      h('span', { class: 'about' }, timeElement(session.updatedAt, timeOfDay(session.updatedAt)), ` · ${counted(session)}`, session.parent ? (session.metadata?.sidechain === true ? ' · subagent' : ' · fork') : '', session.store === 'default' ? '' : ` · ${session.store}`,
        describe(session), session.tags.map((tag) => h('span', { class: 'tag' }, oneLine(tag, 40)))))
    if (!this.#filter.deleted) return this.selection.row(session.sessionId, nameOf(session), link, session)
    const restore = h('button', { type: 'button', onclick: () => this.#restore(session.sessionId) }, 'Restore', h('span', { class: 'hidden' }, ` ${nameOf(session)}`))
    link.removeAttribute('href')
    return h('div', { class: 'trashed' }, link, restore)
  }

  #restore(sessionId) {
    return this.#app.attempt(async () => {
      const { session } = await this.#app.connection.call('session/restore', { sessionId })
      this.#app.say(`restored: ${nameOf(session)}`)
      await this.load()
    })
  }

  #filters() {
    const choose = (label, name, options) => {
      const select = h('select', { id: `filter-${name}` }, options.map(([value, text]) => h('option', { value }, text)))
      select.addEventListener('change', () => this.#set(name, select.value))
      return h('div', { class: 'field' }, h('label', { for: `filter-${name}` }, label), select)
    }
    const type = (label, name) => {
      const input = h('input', { id: `filter-${name}`, autocomplete: 'off', list: `known-${name}` })
      input.addEventListener('input', () => this.#set(name, input.value.trim()))
      return h('div', { class: 'field' }, h('label', { for: `filter-${name}` }, label), input, h('datalist', { id: `known-${name}` }))
    }
    const stores = choose('Store', 'store', [['', 'all']])
    this.storeSelect = stores.querySelector('select')
    return h('details', { class: 'filters' }, h('summary', {}, 'Filters'),
      choose('Show', 'shelf', [['', 'current'], ['waiting', 'waiting for you'], ['archived', 'archived'], ['deleted', 'trash']]), stores, type('Tool', 'tool'), type('Project', 'cwd'), type('Tag', 'tag'), type('Model', 'model'),
      choose('Found in', 'role', [['', 'every role'], ['user', 'user'], ['assistant', 'assistant'], ['tool', 'tool'], ['system', 'system']]))
  }

  // What the sessions in view have is offered for the fields of the filters.
  #offer(sessions) {
    for (const session of sessions) {
      const tool = session.metadata?.source?.tool
      const found = { tool: [typeof tool === 'string' ? tool : 'sessiond'], cwd: [session.cwd], tag: session.tags, model: [session.model] }
      for (const [name, values] of Object.entries(found)) for (const value of values) if (value) this.#known(name, value)
    }
  }

  #known(name, value) {
    const known = (this.known[name] ??= new Set())
    if (known.has(value) || known.size >= OFFERED) return
    known.add(value)
    this.element.querySelector(`#known-${name}`).append(h('option', { value }))
  }

  /** The stores that can be filtered by, as in `daemon/status`. */
  offerStores(stores) {
    const names = stores.map((store) => store.name)
    const options = names.map((name) => h('option', { value: name, selected: name === this.#filter.store }, name))
    this.storeSelect.replaceChildren(h('option', { value: '' }, 'all'), ...options)
  }

  #set(name, value) {
    if (name === 'shelf') this.#filter = { ...this.#filter, waiting: value === 'waiting', archived: value === 'archived', deleted: value === 'deleted' }
    else this.#filter = { ...this.#filter, [name]: value }
    this.#soon()
    if (this.timeline.open && name !== 'role') this.#count()
  }

  // Only when a session came or went: counting reads the whole list, and a session that grows changes its row all the time.
  #countAgain(sessions) {
    const ids = sessions.map((session) => session.sessionId).sort().join()
    if (ids !== this.#counted) this.#count()
    this.#counted = ids
  }

  // How many sessions each month has, as bars to press.
  async #count() {
    const months = new Map()
    let cursor = null
    let counted = 0
    try {
      do {
        const { since, until, ...filter } = this.#wanted()
        const page = await this.#app.connection.call('session/list', { limit: 1000, filter, ...(cursor && { cursor }) })
        for (const session of page.sessions) {
          const month = session.updatedAt.slice(0, 7)
          months.set(month, (months.get(month) ?? 0) + 1)
        }
        counted += page.sessions.length
        cursor = page.nextCursor
      } while (cursor !== null && counted < MONTHS_FROM)
    } catch (error) {
      if (error.kind !== 'disconnected') this.#app.fail(error)
      return
    }
    const most = Math.max(1, ...months.values())
    this.months.replaceChildren(...[...months].map(([month, count]) => this.#bar(month, count, most)))
  }

  #bar(month, count, most) {
    const [year, number] = month.split('-').map(Number)
    const range = [new Date(Date.UTC(year, number - 1)).toISOString(), new Date(Date.UTC(year, number)).toISOString()]
    const meter = h('meter', { min: 0, max: most, value: count, 'aria-hidden': 'true' })
    const button = h('button', { type: 'button', 'aria-pressed': this.#month?.[0] === range[0] }, MONTH.format(new Date(range[0])), ` · ${count.toLocaleString()} `, meter)
    button.addEventListener('click', () => {
      const off = this.#month?.[0] === range[0]
      this.#month = off ? null : range
      for (const one of this.months.querySelectorAll('button')) one.setAttribute('aria-pressed', String(one === button && !off))
      this.load()
    })
    button.setAttribute('aria-pressed', String(this.#month?.[0] === range[0]))
    return h('li', {}, button)
  }

  #along(event) {
    const row = document.activeElement?.closest('a.row')
    if (event.key === 'x' && row && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault()
      event.stopPropagation()
      const { id } = row.dataset
      this.selection.flip(id)
      return
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    const rows = [...this.rows.querySelectorAll('a.row[href]:not([hidden] *)')]
    const place = rows.indexOf(document.activeElement)
    if (step === undefined || place < 0) return
    event.preventDefault()
    if (place + step < 0) this.input.focus()
    else rows[Math.min(rows.length - 1, place + step)].focus()
  }
}

// What a page of the list or of a search shows, for telling whether a later one shows anything else.
function fingerprint({ sessions, hits, total }) {
  return JSON.stringify(sessions?.map(shownOf) ?? [total, hits])
}

function shownOf(session) {
  return [session.sessionId, session.name, session.summary, session.updatedAt, session.messageCount, session.tags, session.activity]
}

// The tool that a session came from, the last part of its folder, and its model.
function describe({ metadata, cwd, model }) {
  const tool = metadata?.source?.tool
  const folder = cwd?.split(/[\\/]/).filter(Boolean).at(-1)
  return [typeof tool === 'string' && h('span', {}, ` · ${oneLine(tool, 30)}`), folder && h('span', { title: oneLine(cwd, 300) }, ` · ${oneLine(folder, 30)}`), model && h('span', {}, ` · ${oneLine(model, 40)}`)]
}

// What to do with an empty page.
const FIRST = () => [
  h('p', {}, 'No sessions yet. In a terminal:'),
  h('dl', {}, [
    ['sessiond import', 'takes over what the tools on this machine have kept'],
    ['sessiond follow on', 'shows their sessions here from now on, as they grow'],
    ['sessiond setup', 'sets up an editor'],
  ].map(([command, what]) => [h('dt', {}, h('code', {}, command)), h('dd', {}, what)])),
]
