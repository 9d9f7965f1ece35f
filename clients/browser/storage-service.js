// The persistence service of a chat in the browser (`THEIA_AGENT_STATE_V1`), with sessiond behind it instead of localStorage:
// saveState, loadState, clearState, hasSavedState; no ceiling of 5 MB, many sessions side by side, every tab and every other tool live.
//
//   const storage = new StorageService({ connection, sessionId: 'pr-12', eventBus })
//   await storage.saveState(state)     // kept at once, sent when the daemon is available, in order, once
//   const state = await storage.loadState()
//
// Events, to `eventBus.emit` and to `on`:
//   AGENT_SESSION_RESTORED {state}     after loadState found something, and after the daemon came back with something newer
//   AGENT_PLAN_CREATED {plan}          right after it, if there is a plan, so that its panel repaints too
//   AGENT_SESSION_CHANGED {state}      another tab or tool changed the session
//   STORAGE_PROBLEM {error}            something to show to the user: `error.message`, `error.hint`

import { applyChange, Disconnected, modelOf, newId, SessiondError } from './sessiond.js'
import { Outbox } from './outbox.js'

export const STORAGE_KEY = 'THEIA_AGENT_STATE_V1'
export const FIELDS = ['context', 'prData', 'plan', 'pendingAction', 'lastError']
const PAGE = 1000 // messages of one request; the daemon accepts more
const TAKE_OVER = 'storage/takeOver'
const REPLACE = 'storage/replace'
const SET = 'storage/set'
const ATTEMPTS = 64 // how often others may be quicker before it is tried later

export class StorageService {
  #connection
  #outbox
  #bus
  #room = null
  #model = null
  #shown = null // the session as this browser last knew it, including what it still has to send
  #mine = { messages: [] } // the state that the program last saved or loaded
  #listeners = new Map()
  #working = Promise.resolve()
  #fields
  #store
  #restored = false
  #owed = false // something was refused because the session is gone
  #following = Promise.resolve()

  /**
   * `connection`: a Connection of sessiond.js. `sessionId`: without the store. `store`: of format theia, say; the default one if
   * absent. `localStorage`: with the earlier data (null: none).
   */
  constructor({
    connection, sessionId = 'theia-agent', store = null, eventBus = null, outbox = null, localStorage = globalThis.localStorage ?? null,
    fields = FIELDS,
  }) {
    this.#connection = connection
    this.#store = store
    this.localId = sessionId
    this.sessionId = store === null || store === 'default' ? sessionId : `${store}/${sessionId}`
    this.#bus = eventBus
    this.#fields = fields
    this.#outbox = outbox ?? new Outbox({ name: 'sessiond-storage', handlers: { [TAKE_OVER]: takeOver, [REPLACE]: replace, [SET]: setValues } })
    this.#outbox.listen((name, details) => {
      if (name === 'problem') this.#problem(details)
      if (name === 'refused' && details.entry.params.sessionId === this.sessionId) {
        if (details.entry.method === TAKE_OVER) this.#giveBack(localStorage, details.entry.params)
        if (details.error.kind === 'sessionNotFound') {
          this.#owed = true
          this.#inOrder(() => this.#owed && this.#anew())
        } else this.#problem(details.error)
      }
    })
    this.ready = this.#takeOver(localStorage)
    connection.on('state', ({ state }) => state === 'open' && this.#back())
    if (connection.state === 'open') this.#back()
  }

  on(type, listener) {
    const all = this.#listeners.get(type) ?? new Set()
    this.#listeners.set(type, all.add(listener))
    return () => all.delete(listener)
  }

  /**
   * Keep a state: its messages and its persisted fields. Resolves when a refresh can no longer lose any of it; it is sent as soon as
   * the daemon is available. Only what the program changed since it last saved or loaded is sent: changes by other tabs or tools that
   * this program does not know remain.
   */
  saveState(state) {
    return this.#inOrder(async () => {
      const shown = (await this.#last()) ?? { messages: [] }
      const { requests, whole, mine } = merge(this.#mine, shown, persisted(state, this.#fields), this.sessionId)
      for (const [method, params] of requests) await this.#outbox.add(method, params)
      this.#mine = mine
      await this.#remember(whole)
      this.#send()
    })
  }

  /** The last saved state, whoever saved it, or null. While the daemon is away: the last one that this browser knew. */
  loadState() {
    return this.#inOrder(async () => {
      await this.#reach()
      const state = await this.#last()
      if (state === null || state === undefined || isEmpty(state)) return null
      this.#restored = true
      this.#mine = structuredClone(state)
      this.#restore(state)
      return structuredClone(state)
    })
  }

  /** Whether `loadState` would find something. */
  hasSavedState() {
    return this.#inOrder(async () => {
      await this.#reach()
      const state = await this.#last()
      return state != null && !isEmpty(state)
    })
  }

  /**
   * Forget the conversation under this id, as this browser knows it; what others say after that remains. The daemon keeps the old
   * content in its trash.
   */
  clearState() {
    return this.#inOrder(async () => {
      await this.#reach()
      const shown = await this.#last()
      const removed = shown?.messages.map(({ id }) => id) ?? null
      await this.#outbox.add(REPLACE, { sessionId: this.sessionId, removed, messages: [] })
      const values = Object.fromEntries(this.#fields.map((key) => [key, null]))
      await this.#outbox.add(SET, setting(this.sessionId, values, shown))
      this.#mine = { messages: [] }
      await this.#remember({ messages: [] })
      this.#send()
    })
  }

  /** Resolves when the daemon has acknowledged everything saved, which means that it is on the disk. */
  async settled() {
    for (let working; working !== this.#working;) {
      working = this.#working
      await working
      await this.#reach()
    }
    return this.#connection.state === 'open' && !(await this.#isWaiting())
  }

  // One after another: a save that begins during another one is compared with the result of that one.
  #inOrder(work) {
    const done = this.#working.then(() => this.ready).then(work)
    this.#working = done.catch(() => {})
    return done
  }

  async #last() {
    if (this.#shown === null) this.#shown = (await this.#outbox.snapshot(this.sessionId)) ?? null
    return this.#shown
  }

  async #remember(state) {
    this.#shown = structuredClone(state)
    await this.#outbox.keepSnapshot(this.sessionId, this.#shown)
  }

  #send() {
    if (this.#connection.state === 'open') this.#back()
  }

  async #reach() {
    if (this.#connection.state !== 'open') return
    try {
      await this.#follow()
    } catch (error) {
      if (!(error instanceof Disconnected)) this.#problem(error)
    }
  }

  // The daemon is available (again): first send what waits, then read what is new.
  async #back() {
    try {
      await this.ready
      await this.#follow()
    } catch (error) {
      if (!(error instanceof Disconnected)) this.#problem(error)
    }
  }

  // One after another, for all callers.
  #follow() {
    const done = this.#following.then(() => this.#catchUp())
    this.#following = done.catch(() => {})
    return done
  }

  async #catchUp() {
    if (this.#room === null) {
      await makeSession(this.#connection, this.localId, this.#store === null ? {} : { store: this.#store })
    }
    await this.#outbox.flush(this.#connection)
    if (this.#room !== null) return
    let waited = true
    const room = (this.#room = this.#connection.follow(this.sessionId, { last: PAGE }))
    room.on('opened', (result) => waited || this.#inOrder(() => this.#room === room && this.#read(result)))
    room.on('reset', (result) => this.#inOrder(() => this.#read(result)))
    room.on('change', (change) => {
      if (this.#model === null) return
      if (applyChange(this.#model, change)) this.#changed()
    })
    room.on('caughtUp', () => this.#outbox.flush(this.#connection))
    room.on('deleted', ({ movedTo }) => this.#inOrder(() => this.#room === room && (movedTo ? this.#moved(movedTo) : this.#deleted())))
    let off
    try {
      // If the connection ends meanwhile, do not wait for it to come back: what is saved must be kept now.
      const lost = new Promise((_, reject) => {
        off = this.#connection.on('state', ({ state }) => state === 'open' || reject(new Disconnected()))
      })
      await this.#read(await Promise.race([room.opened, lost]))
    } catch (error) {
      if (!(error instanceof Disconnected)) this.#room = null
      throw error
    } finally {
      waited = false
      off()
    }
  }

  // The session was deleted. Unsent changes of this browser create it again; otherwise the next save does.
  async #deleted() {
    this.#room = this.#model = null
    this.#problem(told('the session was deleted elsewhere', 'deleted', 'it lies in the trash; the next save makes it anew'))
    if (this.#owed || (await this.#isWaiting())) await this.#anew()
    else {
      this.#shown = this.#mine = { messages: [] }
      await this.#outbox.keepSnapshot(this.sessionId, null)
    }
  }

  // The session has another id: it is followed there, and what waits is sent there.
  async #moved(movedTo) {
    const before = this.sessionId
    await this.#outbox.change((entry) => entry.params.sessionId === before, (params) => { params.sessionId = movedTo })
    const state = await this.#last()
    const [localId, store = null] = movedTo.split('/').reverse()
    Object.assign(this, { sessionId: movedTo, localId })
    this.#store = store
    this.#room = this.#model = null
    await this.#outbox.keepSnapshot(before, null)
    if (state !== null) await this.#remember(state)
    this.#problem(told(`the session was moved elsewhere: it is ${movedTo} now`, 'moved', 'this page goes on there'))
    this.#send()
  }

  // The session is gone, and must get this browser's last state: send all of it again, under the same ids.
  async #anew() {
    this.#owed = false
    const state = (await this.#last()) ?? { messages: [] }
    await this.#outbox.drop((entry) => entry.params.sessionId === this.sessionId)
    for (const [method, params] of requestsFor(state.messages, valuesOf(state), this.sessionId)) await this.#outbox.add(method, params)
    await this.#remember(state)
    this.#room?.close().catch(() => {}) // its session no longer exists
    this.#room = this.#model = null
    this.#send()
  }

  async #isWaiting() {
    return (await this.#outbox.entries()).some((entry) => entry.params.sessionId === this.sessionId)
  }

  // Whether this browser, in this tab or another one, still has earlier changes to send.
  async #isBusy() {
    if (!(await this.#isWaiting())) return false
    if (this.#connection.state === 'open') await this.#outbox.flush(this.#connection)
    return this.#isWaiting()
  }

  // All pages, and then this browser's unsent changes on top.
  async #read(result) {
    const model = modelOf(result)
    let more = result.hasMore
    while (more) {
      const page = await this.#connection.call('session/read', { sessionId: this.sessionId, before: model.messages[0].seq, limit: PAGE })
      model.messages.unshift(...page.messages)
      more = page.hasMore
    }
    const { savedAt } = await this.#connection.call('state/get', { sessionId: this.sessionId, keys: [] })
    this.#model = model
    if (await this.#isBusy()) return // its answers lead to `#changed`
    const before = await this.#last()
    const state = this.#stateOf(model, savedAt)
    const news = !same(bare(before), bare(state))
    await this.#remember(state)
    if (news && this.#restored) this.#restore(state)
  }

  #stateOf(model, savedAt) {
    const state = { messages: model.messages.map(plain) }
    for (const key of this.#fields) if (key in model.state) state[key] = model.state[key]
    const last = model.messages.at(-1)?.timestamp ?? null
    const when = [savedAt, last].filter(Boolean).sort().at(-1)
    if (when) state.savedAt = when
    return state
  }

  #changed() {
    this.#inOrder(async () => {
      const isNews = async () => this.#model !== null && !same(bare(await this.#last()), bare(this.#stateOf(this.#model)))
      if (!(await isNews()) || (await this.#isBusy())) return // the requests under way lead here again
      // The requests that were under way are only now in the model.
      if (!(await isNews())) return
      const state = this.#stateOf(this.#model, new Date().toISOString())
      await this.#remember(state)
      this.#emit('AGENT_SESSION_CHANGED', { state: structuredClone(state) })
    })
  }

  #restore(state) {
    this.#emit('AGENT_SESSION_RESTORED', { state: structuredClone(state) })
    if (state.plan != null) this.#emit('AGENT_PLAN_CREATED', { plan: structuredClone(state.plan), restored: true })
  }

  // Data of earlier versions in localStorage is queued like a save, once. The ids follow from its content, so that two tabs, or a
  // crash between queueing and removing, add nothing.
  async #takeOver(storage) {
    const text = storage?.getItem(STORAGE_KEY) ?? null
    if (text === null) return
    let old
    try {
      old = persisted(JSON.parse(text), this.#fields)
    } catch (error) {
      this.#problem(told(`what lies in localStorage cannot be read: ${error.message}`, 'badFile', `it is left under ${STORAGE_KEY}`))
      return
    }
    const stamp = hash(text)
    old.messages = old.messages.map((message, place) => ({ id: `local-${stamp}-${place}`, ...message }))
    const { messages, ...values } = old
    const store = this.#store === null ? {} : { store: this.#store }
    const params = { sessionId: this.sessionId, localId: this.localId, elsewhere: `${this.localId}-local-${stamp}`, store, messages, values }
    const kept = await this.#outbox.add(TAKE_OVER, params)
    if ((await this.#last()) === null) await this.#remember(old)
    if (kept) storage.removeItem(STORAGE_KEY)
  }

  // The daemon refused it: it remains where it was.
  #giveBack(storage, { messages, values }) {
    try {
      storage?.setItem(STORAGE_KEY, JSON.stringify({ ...values, messages }))
    } catch (error) {
      this.#problem(error)
    }
  }

  #problem(error) {
    this.#emit('STORAGE_PROBLEM', { error })
  }

  #emit(type, payload) {
    for (const listener of [...(this.#listeners.get(type) ?? [])]) listener(payload)
    this.#bus?.emit({ type, payload })
  }
}

// Into the session if it is empty or already has this; if it has another conversation, into a separate session.
async function takeOver(connection, { sessionId, localId, elsewhere, store, messages, values }) {
  const made = await makeSession(connection, localId, store)
  const { messages: first } = made ? { messages: [] } : await connection.call('session/read', { sessionId, since: 0, limit: 1 })
  const free = first.length === 0 || first[0].id === messages[0]?.id
  const target = free ? sessionId : `${sessionId.slice(0, sessionId.length - localId.length)}${elsewhere}`
  if (!free) await makeSession(connection, elsewhere, store)
  for (let from = 0; from < messages.length; from += PAGE) {
    await connection.call('session/append', { sessionId: target, messages: messages.slice(from, from + PAGE) })
  }
  if (Object.keys(values).length > 0) await connection.call('state/set', { sessionId: target, values })
}

// Takes out messages and puts `messages` behind what remains. `removed`: their ids; null: all that are there when it is tried first.
// What others said meanwhile remains, also if the answer is lost and it is tried again.
async function replace(connection, params, keep) {
  const { sessionId, messages } = params
  for (let attempt = 0; ; attempt++) {
    const { seq, all } = await everything(connection, sessionId)
    params.removed ??= all.map(({ id }) => id)
    const first = all.findIndex(({ id }) => params.removed.includes(id))
    if (first < 0) break // it was done before, and the answer was lost
    if (attempt === ATTEMPTS) throw busy(sessionId)
    params.kept = all.slice(first).filter(({ id }) => !params.removed.includes(id)).map(plain)
    await keep() // before they are cut off
    try {
      await connection.call('session/truncate', { sessionId, afterSeq: all[first - 1]?.seq ?? 0, expectedSeq: seq })
      break
    } catch (error) {
      if (error.kind !== 'conflict') throw error
    }
  }
  const again = [...(params.kept ?? []), ...messages]
  for (let from = 0; from < again.length; from += PAGE) {
    await connection.call('session/append', { sessionId, messages: again.slice(from, from + PAGE) })
  }
}

async function everything(connection, sessionId) {
  let page = await connection.call('session/read', { sessionId, since: 0, limit: PAGE })
  const { seq, messages: all } = page // a change while the pages come is a conflict later
  while (page.hasMore) {
    page = await connection.call('session/read', { sessionId, since: all.at(-1).seq, limit: PAGE })
    all.push(...page.messages)
  }
  return { seq, all }
}

// Sets values, but for those that somebody has set to something else since then.
async function setValues(connection, { sessionId, values, before, at }) {
  const keys = Object.keys(values)
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const { seq } = await connection.call('session/read', { sessionId, last: 0 })
    const { values: now, savedAt } = await connection.call('state/get', { sessionId, keys })
    const earlier = savedAt === null || savedAt <= at
    const due = keys.filter((key) => earlier || same(now[key] ?? null, before[key] ?? null))
    if (due.length === 0) return
    try {
      await connection.call('state/set', { sessionId, values: Object.fromEntries(due.map((key) => [key, values[key]])), expectedSeq: seq })
      return
    } catch (error) {
      if (error.kind !== 'conflict') throw error
    }
  }
  throw busy(sessionId)
}

// `shown`: the state that this browser knows.
function setting(sessionId, values, shown) {
  const before = Object.fromEntries(Object.keys(values).map((key) => [key, shown?.[key] ?? null]))
  return { sessionId, values, before, at: new Date().toISOString() }
}

function busy(sessionId) {
  return new SessiondError({ message: `${sessionId} is constantly being changed`, data: { kind: 'unavailable', hint: 'it is tried again' } })
}

async function makeSession(connection, sessionId, store) {
  try {
    await connection.call('session/new', { sessionId, ...store })
    return true
  } catch (error) {
    if (error.kind !== 'alreadyExists') throw error
    return false
  }
}

function told(message, kind, hint) {
  return Object.assign(new Error(message), { kind, hint })
}

function persisted(state, fields) {
  if (typeof state !== 'object' || state === null || !Array.isArray(state.messages ?? [])) throw new TypeError('a state is an object with messages')
  const kept = { messages: (state.messages ?? []).map(plain) }
  for (const key of fields) if (state[key] !== undefined && state[key] !== null) kept[key] = structuredClone(state[key])
  return kept
}

// A message without the daemon's additions; what the program itself set remains.
function plain({ seq, ...message }) {
  return structuredClone(message)
}

// Three states: what the program last knew (`mine`), what the session holds (`shown`), what the program has now (`next`). Returns the
// requests that bring the program's changes into the session, the session after them, and what the program then knows.
function merge(mine, shown, next, sessionId) {
  const known = new Set(mine.messages.map((message) => message.id))
  const [kept, messages] = [[], []]
  const removed = []
  for (const [place, message] of shown.messages.entries()) {
    if (removed.length === 0 && messages.length < next.messages.length && saysTheSame(message, next.messages[messages.length])) {
      messages.push(message) // with its id
      kept.push(message)
    } else if (known.has(message.id)) removed.push(message.id) // the program removed it, and everything that it knows after it
    else kept.push(shown.messages[place])
  }
  const fresh = next.messages.slice(messages.length).map((message, place) => freshOf(message, kept, mine.messages[messages.length + place]))
  const values = {}
  const keys = new Set([...Object.keys(valuesOf(mine)), ...Object.keys(valuesOf(next))])
  for (const key of keys) {
    const [had, has, wants] = [mine[key] ?? null, shown[key] ?? null, next[key] ?? null]
    if (!same(wants, had) && !same(wants, has)) values[key] = wants
  }
  const replaced = removed.length > 0
  const requests = requestsFor(replaced ? [] : fresh, values, sessionId, shown)
  if (replaced) requests.unshift([REPLACE, { sessionId, removed, messages: fresh }])
  const whole = { ...shown, ...values, messages: [...kept, ...fresh] }
  for (const [key, value] of Object.entries(values)) if (value === null) delete whole[key]
  return { requests, whole, mine: { ...next, messages: [...messages, ...fresh] } }
}

// A message that is probably not in the session yet gets a new id there. One that this program sent before (then `sent` was in its
// place) keeps its id, so that it is stored once if it is still on its way.
function freshOf(message, kept, sent) {
  const id = message.id ?? (sent !== undefined && saysTheSame(sent, message) ? sent.id : undefined)
  const free = id !== undefined && !kept.some((one) => one.id === id)
  return { ...message, id: free ? id : newId() }
}

function requestsFor(messages, values, sessionId, shown = null) {
  const requests = []
  for (let from = 0; from < messages.length; from += PAGE) {
    requests.push(['session/append', { sessionId, messages: messages.slice(from, from + PAGE) }])
  }
  if (Object.keys(values).length > 0) requests.push([SET, setting(sessionId, values, shown)])
  return requests
}

function valuesOf({ messages, savedAt, ...values }) {
  return values
}

const ADDED = ['id', 'timestamp', 'status']

function saysTheSame(one, other) {
  const [a, b] = [{ ...one }, { ...other }]
  for (const key of ADDED) if (!(key in one && key in other)) delete a[key], delete b[key]
  return same(a, b)
}

function isEmpty(state) {
  return state.messages.length === 0 && Object.keys(bare(state)).length <= 1
}

function bare(state) {
  if (state == null) return { messages: [] }
  const { savedAt, ...rest } = state
  return { ...rest, messages: rest.messages.map(({ timestamp, ...message }) => message) }
}

function same(one, other) {
  if (Object.is(one, other)) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one) !== Array.isArray(other)) return false
  const keys = Object.keys(one)
  return keys.length === Object.keys(other).length && keys.every((key) => key in other && same(one[key], other[key]))
}

// 53 bits: enough to tell one saved blob from another.
function hash(text) {
  let [a, b] = [0xdeadbeef, 0x41c6ce57]
  for (let place = 0; place < text.length; place++) {
    const unit = text.charCodeAt(place)
    a = Math.imul(a ^ unit, 2654435761)
    b = Math.imul(b ^ unit, 1597334677)
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)
  return (4294967296 * (2097151 & b) + (a >>> 0)).toString(36)
}
