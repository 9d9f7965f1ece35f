// A client of sessiond for browsers and Node: one WebSocket, JSON-RPC 2.0, one text frame for each message.
//
//   const connection = new Connection({ url: 'ws://127.0.0.1:8765', token, client: 'my-app' })
//   await connection.connect()
//   const room = connection.follow('session-20260111-143022')
//   room.on('change', (change) => { ... })
//   await room.opened
//
// Types are in sessiond.d.ts. It has neither a build step nor imports.

export const PROTOCOL_VERSION = 1

const OPEN = 1
const DEFAULTS = {
  client: 'browser', backoffMs: 250, maxBackoffMs: 15_000, connectMs: 15_000, socket: (url) => new globalThis.WebSocket(url),
}

/** An error that the daemon returned. Decide by `kind`; people read `message` and `hint`. */
export class SessiondError extends Error {
  constructor({ code = 0, message = 'the request failed', data = {} }) {
    super(message)
    this.name = 'SessiondError'
    this.code = code
    this.kind = data?.kind ?? 'unknown'
    this.hint = data?.hint ?? null
    this.data = data ?? {}
  }
}

/** There is no connection, or it ended before the answer: the request may or may not have been carried out. */
export class Disconnected extends SessiondError {
  constructor(message = 'there is no connection to the daemon') {
    super({ message, data: { kind: 'disconnected', hint: 'it is tried again by itself' } })
    this.name = 'Disconnected'
  }
}

// A listener's error is reported like any other and does not affect other listeners.
function safely(work) {
  try {
    work()
  } catch (error) {
    queueMicrotask(() => { throw error })
  }
}

class Emitter {
  #listeners = new Map()

  /** Call `listener` for every event of this name ('*': for all, with the name first). Returns a function that removes it. */
  on(name, listener) {
    const all = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, all.add(listener))
    return () => all.delete(listener)
  }

  emit(name, ...values) {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) safely(() => listener(...values))
    for (const listener of [...(this.#listeners.get('*') ?? [])]) safely(() => listener(name, ...values))
  }
}

/**
 * A connection that reconnects by itself. Events: `state` ({state, error, retryMs}), `notification` (method, params), and every
 * notification under its own method's name.
 */
export class Connection extends Emitter {
  #options
  #socket = null
  #number = 0
  #waiting = new Map()
  #rooms = new Map()
  #attempts = 0
  #timer = null
  #closed = false
  #initialize = null
  #problem = null

  constructor(options) {
    super()
    this.#options = { ...DEFAULTS, ...options }
    /** 'idle', 'connecting', 'open', 'waiting' (for the next attempt), 'closed' or 'refused' */
    this.state = 'idle'
    this.server = null
    this.limits = null
  }

  get url() {
    return this.#options.url
  }

  /** Connect and stay connected. Resolves once the daemon has admitted us; rejects if it never will (a wrong token). */
  connect() {
    this.#initialize ??= new Promise((resolve, reject) => {
      const off = this.on('state', ({ state, error }) => {
        if (state === 'open') off(), resolve(this.server)
        else if (state === 'refused' || state === 'closed') off(), reject(error ?? new Disconnected('the connection was closed'))
      })
      if (this.state === 'idle') this.#dial()
    })
    return this.#initialize
  }

  /** Try at once instead of waiting for the next attempt (the network is back, the user requested it). */
  retry() {
    if (this.state === 'waiting') this.#dial()
  }

  /** The result of a request. Rejects with SessiondError, Disconnected, or an AbortError if `signal` cancelled it. */
  async call(method, params = {}, { signal } = {}) {
    signal?.throwIfAborted()
    if (this.state !== 'open') throw new Disconnected()
    return this.#request(method, params, signal)
  }

  notify(method, params = {}) {
    if (this.state !== 'open') throw new Disconnected()
    this.#socket.send(encode({ jsonrpc: '2.0', method, params }))
  }

  /** Open a session and keep it open over every reconnect. Options as for `session/open`: `last`, `restore`. */
  follow(sessionId, options = {}) {
    const room = new Room(this, sessionId, options, () => {
      this.#rooms.get(sessionId)?.delete(room)
    })
    const all = this.#rooms.get(sessionId) ?? new Set()
    this.#rooms.set(sessionId, all.add(room))
    if (this.state === 'open') room.catchUp()
    return room
  }

  close() {
    this.#closed = true
    clearTimeout(this.#timer)
    const socket = this.#socket
    this.#lost(new Disconnected('the connection was closed'))
    socket?.close(1000)
    this.#tell('closed')
  }

  #tell(state, more = {}) {
    this.state = state
    this.emit('state', { state, error: null, retryMs: null, ...more })
  }

  async #dial() {
    clearTimeout(this.#timer)
    this.#problem = null
    this.#tell('connecting')
    try {
      await this.#options.beforeConnect?.()
    } catch (error) {
      this.#problem = error
      if (this.state === 'connecting') this.#later()
      return
    }
    if (this.state !== 'connecting') return
    let socket
    try {
      socket = this.#options.socket(this.#options.url)
    } catch (error) {
      this.#refuse(error)
      return
    }
    this.#socket = socket
    const deadline = setTimeout(() => {
      this.#problem = new Disconnected('the daemon does not answer')
      socket.close()
      ended()
    }, this.#options.connectMs)
    const ended = () => {
      clearTimeout(deadline)
      if (this.#socket === socket) this.#ended()
    }
    socket.onmessage = (event) => this.#socket === socket && this.#receive(event.data)
    socket.onclose = ended
    socket.onopen = async () => {
      try {
        const { client, token } = this.#options
        this.server = await this.#request('initialize', {
          processId: null, rootUri: null, capabilities: {}, clientInfo: { name: client },
          initializationOptions: token == null ? {} : { token },
        })
      } catch (error) {
        clearTimeout(deadline)
        if (error.kind === 'unauthorized') this.#refuse(error)
        else {
          this.#problem ??= error
          socket.close() // the daemon may leave it open, and nothing more would arrive
        }
        return
      }
      clearTimeout(deadline)
      this.#welcome()
    }
  }

  #welcome() {
    const own = this.server.capabilities?.experimental?.sessiond ?? {}
    if (own.protocolVersion !== PROTOCOL_VERSION) {
      const hint = own.protocolVersion > PROTOCOL_VERSION ? 'reload the page' : 'run `sessiond stop`; a newer daemon starts by itself'
      this.#refuse(new SessiondError({
        message: `the daemon speaks protocol ${own.protocolVersion}, this client ${PROTOCOL_VERSION}`, data: { kind: 'otherVersion', hint },
      }))
      return
    }
    this.limits = own.limits ?? {}
    this.#attempts = 0
    this.#tell('open')
    for (const rooms of this.#rooms.values()) for (const room of rooms) room.catchUp()
  }

  #ended() {
    this.#lost(new Disconnected('the connection ended before the answer'))
    if (!this.#closed && this.state !== 'refused') this.#later()
  }

  #later() {
    const { backoffMs, maxBackoffMs } = this.#options
    const most = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(this.#attempts++, 16))
    const retryMs = Math.round(most * (0.5 + Math.random() / 2)) // a hundred tabs must not reconnect at the same moment
    this.#timer = setTimeout(() => this.#dial(), retryMs)
    this.#tell('waiting', { error: this.#problem, retryMs })
  }

  #refuse(error) {
    const socket = this.#socket
    this.#lost(error)
    this.#tell('refused', { error })
    socket?.close()
  }

  #lost(error) {
    this.#socket = null
    for (const rooms of this.#rooms.values()) for (const room of rooms) room.away()
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { reject } of waiting) reject(error)
  }

  #request(method, params, signal) {
    const id = ++this.#number
    const rooms = this.#rooms.get(params?.sessionId)
    return new Promise((resolve, reject) => {
      let text
      try {
        text = encode({ jsonrpc: '2.0', id, method, params })
      } catch (error) {
        reject(error)
        return
      }
      const limit = this.limits?.messageBytes ?? Infinity
      if (text.length * 3 > limit && new TextEncoder().encode(text).length > limit) {
        // The daemon would end the connection because of it, and it would be sent again for ever.
        reject(new SessiondError({ message: `this is longer than the ${limit} bytes that the daemon takes at once`, data: { kind: 'tooLarge', limit, hint: 'send it in parts' } }))
        return
      }
      const cancel = () => {
        if (this.#waiting.delete(id)) {
          done()
          this.#socket?.send(encode({ jsonrpc: '2.0', method: '$/cancelRequest', params: { id } }))
          reject(signal.reason)
        }
      }
      const done = () => {
        signal?.removeEventListener('abort', cancel)
        for (const room of rooms ?? []) room.settled(id)
      }
      signal?.addEventListener('abort', cancel)
      this.#waiting.set(id, {
        resolve: (result) => {
          done()
          // A connection gets no notifications of its own changes: each room learns them from the answer.
          for (const room of rooms ?? []) room.answered(method, params, result)
          resolve(result)
        },
        reject: (error) => (done(), reject(error)),
      })
      for (const room of rooms ?? []) room.asked(id)
      this.#socket.send(text)
    })
  }

  #receive(text) {
    let messages
    try {
      messages = [decode(text)].flat()
      if (!messages.every((one) => typeof one === 'object' && one !== null)) throw new TypeError('no object')
    } catch (error) {
      this.#problem = new SessiondError({
        message: `the daemon sent what is no message: ${error.message}`, data: { kind: 'badMessage', hint: 'it is tried again by itself' },
      })
      this.#socket?.close()
      return
    }
    for (const one of messages) this.#take(one)
  }

  #take(message) {
    if (message.method !== undefined) {
      if (message.id !== undefined && message.id !== null) {
        const error = { code: -32601, message: 'this client takes no requests' }
        this.#socket?.send(encode({ jsonrpc: '2.0', id: message.id, error }))
        return
      }
      const params = message.params ?? {}
      for (const room of [...(this.#rooms.get(params.sessionId ?? params.session?.sessionId) ?? [])]) room.notified(message.method, params)
      this.emit('notification', message.method, params)
      this.emit(message.method, params)
      return
    }
    const error = message.error === undefined ? null : new SessiondError(message.error)
    const waiting = this.#waiting.get(message.id)
    if (waiting === undefined) {
      if (message.id === null && error !== null) {
        this.#problem = error
        if (error.kind === 'unauthorized') this.#refuse(error)
        else this.emit('problem', error) // it cannot be assigned to a request of ours
      }
      return
    }
    this.#waiting.delete(message.id)
    if (error !== null) waiting.reject(error)
    else waiting.resolve(message.result)
  }
}

/**
 * One session, followed. Every change comes once; changes by others in the order of seq, our own with their answers. Events:
 *
 *   opened (result)            read for the first time
 *   change (change, {own})     one change; `applyChange` applies it, and applying one twice has no effect
 *   reset (result)             replace the content by this: too much was missed, or the file was edited outside
 *   saved, restored (params)
 *   deleted ()                 it was deleted; nothing more will come
 *   problem (error)            it cannot be opened, or not any longer
 */
export class Room extends Emitter {
  #connection
  #options
  #forget
  #seq = null
  #floor = null
  #asked = new Map()
  #done = new Set()
  #reading = null
  #early = null
  #ended = false
  #resolve
  #reject

  constructor(connection, sessionId, options, forget) {
    super()
    this.#connection = connection
    this.sessionId = sessionId
    this.#options = options
    this.#forget = forget
    this.info = null
    /** Resolves with the answer to the first `session/open`; rejects if the session does not exist. */
    this.opened = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.opened.catch(() => {}) // callers that await it see it; the event `problem` reports it too
  }

  /** The newest seq that is known to have been shown. */
  get seq() {
    return this.#seq
  }

  /** A request for this session: adds `sessionId`. */
  call(method, params = {}, options = {}) {
    return this.#connection.call(method, { ...params, sessionId: this.sessionId }, options)
  }

  /** Stop following. */
  async close() {
    if (this.#ended) return
    this.#end()
    if (this.#connection.state === 'open') await this.#connection.call('session/close', { sessionId: this.sessionId })
  }

  #end() {
    this.#ended = true
    this.#forget()
    this.#reject(new Disconnected('the session was left before it was open'))
  }

  asked(id) {
    if (this.#seq !== null) this.#asked.set(id, this.#seq)
  }

  settled(id) {
    this.#asked.delete(id)
  }

  /** The connection is gone. Unanswered requests may have been carried out, so reading again begins before them. */
  away() {
    for (const seq of this.#asked.values()) this.#floor = Math.min(this.#floor ?? seq, seq)
    this.#asked.clear()
    this.#reading = null
    this.#early = null
  }

  /** Read what was missed, or everything if that is no longer known. */
  async catchUp({ whole = false } = {}) {
    if (this.#ended) return
    const mine = (this.#reading = {})
    this.#early = []
    const since = this.#floor ?? this.#seq
    try {
      let result = await this.#open(since === null || whole ? this.#options : { since })
      if (result.changes === null) result = await this.#open(this.#options)
      if (this.#reading !== mine || this.#ended) return
      const early = this.#early
      this.#reading = this.#early = null
      this.#took(result, since === null)
      for (const told of early) this.notified(...told)
    } catch (error) {
      if (this.#reading !== mine || this.#ended) return
      this.#reading = this.#early = null
      if (error instanceof Disconnected) return
      if (error.kind === 'sessionNotFound' && this.#seq !== null) {
        this.#end()
        this.emit('deleted', { movedTo: null })
        return
      }
      this.#reject(error)
      this.emit('problem', error)
    }
  }

  #open(options) {
    return this.#connection.call('session/open', { ...options, sessionId: this.sessionId })
  }

  #took(result, first) {
    this.info = result.session
    this.#floor = null
    if (Array.isArray(result.changes)) {
      // From the first unknown one on, all of them again in order: applying one twice has no effect. But known messages are known
      // wherever they are.
      const unknown = result.changes.findIndex((change) => !this.#knows(change))
      if (unknown >= 0) {
        for (const change of result.changes.slice(unknown)) if (change.kind !== 'appended' || !this.#knows(change)) this.#apply(change)
      }
    } else {
      this.#done.clear()
      this.emit(first ? 'opened' : 'reset', result)
    }
    this.#seq = Math.max(this.#seq ?? 0, result.session.seq)
    if (Array.isArray(result.changes)) this.emit('caughtUp', result)
    this.#resolve(result)
  }

  notified(method, params) {
    if (this.#early !== null && ['session/changed', 'session/activityChanged'].includes(method)) {
      this.#early.push([method, params])
    } else if (method === 'session/changed') {
      this.#changed(params)
    } else if (method === 'session/resync') {
      this.catchUp()
    } else if (method === 'session/reloaded') {
      this.catchUp({ whole: true })
    } else if (method === 'session/deleted') {
      this.#end()
      this.emit('deleted', { movedTo: params.movedTo ?? null })
    } else {
      if (method === 'session/activityChanged' && this.info) this.info = { ...this.info, activity: params.activity ?? undefined }
      this.emit(method.slice('session/'.length), params)
    }
  }

  #changed(params) {
    for (const change of params.changes) {
      if (params.replay || !this.#knows(change)) this.#apply(change, params.replay === true)
    }
    this.#seq = Math.max(this.#seq ?? 0, params.seq)
  }

  #apply(change, replay = false) {
    if (!replay) this.#remember(change)
    if (change.session) this.info = change.session
    this.emit('change', change, { own: false, replay })
  }

  #knows(change) {
    return change.kind === 'appended' ? change.messages.every(({ seq }) => this.#done.has(seq)) : this.#done.has(change.seq)
  }

  #remember(change) {
    for (const { seq } of change.kind === 'appended' ? change.messages : [change]) {
      this.#done.add(seq)
      if (this.#done.size > 20_000) this.#done.delete(this.#done.values().next().value)
    }
  }

  /** Take a change of our own from its answer. */
  answered(method, params, result) {
    if (this.#seq === null || this.#ended) return
    const own = OWN[method]?.(params, result)
    for (const change of own ?? []) {
      if (change.kind === 'appended') {
        // Messages that an earlier, unanswered attempt added were shown when they were read again.
        if (this.#knows(change)) continue
        this.#remember(change)
      }
      this.emit('change', change, { own: true, replay: false })
    }
    if (result?.session?.sessionId === this.sessionId) this.info = result.session
  }
}

// Changes as their author learns of them. Messages come with their own seqs. The seq of anything else in an answer may be that of
// another client's later change, so it never counts as known; getting such a change again after a reconnect has no effect.
const OWN = {
  'session/append': ({ messages }, result) => [{
    kind: 'appended', seq: result.seq,
    messages: result.messages.map((one, place) => ({ timestamp: new Date().toISOString(), ...messages[place], ...one })),
  }],
  'session/finish': ({ messageId, status, metadata, toolCalls }, { seq }) => [
    { kind: 'finished', seq, messageId, status: status ?? 'done', metadata, toolCalls },
  ],
  'session/extend': ({ messageId, text, offset }, { seq }) => [{ kind: 'extended', seq, messageId, text, offset }],
  'session/update': (_, { session }) => [{ kind: 'updated', seq: session.seq, session }],
  'session/clear': (_, { session }) => [{ kind: 'cleared', seq: session.seq }, { kind: 'updated', seq: session.seq, session }],
  'session/truncate': ({ afterSeq }, { session }) => [
    { kind: 'truncated', seq: session.seq, afterSeq }, { kind: 'updated', seq: session.seq, session },
  ],
  'state/set': ({ values }, { seq }) => [{ kind: 'state', seq, values }],
  'note/append': (_, { note }) => [{ kind: 'note', seq: note.seq, note }],
}

/** A session's content as plain data: `{info, messages, notes, state}`; messages by seq, without gaps from the first one held. */
export function modelOf(result) {
  return { info: result.session, messages: [...result.messages], notes: [...result.notes], state: { ...result.state } }
}

/** Apply one change to a value of `modelOf`. Applying it again has no effect. Returns whether anything changed. */
export function applyChange(model, change) {
  switch (change.kind) {
    case 'appended':
      return change.messages.map((message) => insert(model.messages, message)).some(Boolean)
    case 'extended': {
      const message = model.messages.find((one) => one.id === change.messageId)
      return message !== undefined && extend(message, change)
    }
    case 'finished': {
      const message = model.messages.find((one) => one.id === change.messageId)
      if (message === undefined) return false
      message.status = change.status
      if (change.metadata) message.metadata = { ...message.metadata, ...change.metadata }
      if (change.toolCalls) message.toolCalls = change.toolCalls
      return true
    }
    case 'updated':
      if (model.info.seq > change.session.seq) return false
      model.info = change.session
      return true
    case 'note':
      if (model.notes.some((one) => one.id === change.note.id)) return false
      model.notes.push(change.note)
      return true
    case 'state':
      for (const [key, value] of Object.entries(change.values)) {
        if (value === null) delete model.state[key]
        else model.state[key] = value
      }
      return true
    case 'cleared':
      return keep(model, (message) => message.seq > change.seq)
    case 'truncated':
      return keep(model, (message) => message.seq <= change.afterSeq || message.seq > change.seq)
    default:
      return false // a kind of a later version
  }
}

function insert(messages, message) {
  if (messages.some((one) => one.id === message.id)) return false
  let place = messages.length
  while (place > 0 && messages[place - 1].seq > message.seq) place--
  messages.splice(place, 0, { ...message })
  return true
}

/** Add streamed text to a message; `offset` counts code points, and text that is already there is not added again. */
export function extend(message, { text, offset }) {
  if (typeof message.content !== 'string') return false
  const length = codePoints(message.content)
  const at = offset ?? length
  if (at > length) return false // a gap: the whole message is read again after a reset
  const fresh = [...text].slice(length - at).join('')
  message.content += fresh
  if (fresh) message.status = 'streaming'
  return fresh !== ''
}

/** How many code points a string has: the unit of offsets and ranges on the wire. */
export function codePoints(text) {
  let count = text.length
  for (let place = 0; place < text.length - 1; place++) {
    const unit = text.charCodeAt(place)
    if (unit >= 0xd800 && unit < 0xdc00) count--, place++
  }
  return count
}

function keep(model, test) {
  const before = model.messages.length
  model.messages = model.messages.filter(test)
  return model.messages.length !== before
}

/** A unique id: for messages, so that one that is sent again after a lost answer is stored once. */
export function newId(prefix = 'web') {
  const random = crypto.getRandomValues(new Uint32Array(4))
  return `${prefix}-${Date.now().toString(36)}-${[...random].map((one) => one.toString(36)).join('')}`
}

// JSON without rounding: integers beyond 2^53 are BigInts both ways if the engine supports that.

const EXACT = typeof JSON.rawJSON === 'function'
const MAY_BE_LONG = /\d{16}/

function decode(text) {
  if (!EXACT || !MAY_BE_LONG.test(text)) return JSON.parse(text)
  return JSON.parse(text, (_, value, context) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '') ? BigInt(context.source) : value)
}

function encode(value) {
  if (!EXACT) return JSON.stringify(value)
  return JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? JSON.rawJSON(String(one)) : one))
}

/**
 * Check that the daemon behind `httpUrl` knows the token, without showing it: for `beforeConnect`, so that a page whose daemon has
 * gone does not give its token to a process that took the port. Works in secure contexts (loopback is one). `port`: the one on which
 * the daemon listens, if a tunnel or a proxy shows another one.
 */
export async function prove(httpUrl, token, port = null) {
  if (globalThis.crypto?.subtle === undefined) return
  const url = new URL('/proof', httpUrl)
  const nonce = newId('nonce')
  url.searchParams.set('nonce', nonce)
  let answer
  try {
    answer = await (await fetch(url, { cache: 'no-store' })).json()
  } catch {
    throw new Disconnected('the daemon cannot be reached')
  }
  const bytes = new TextEncoder()
  const key = await crypto.subtle.importKey('raw', bytes.encode(token), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  const sum = await crypto.subtle.sign('HMAC', key, bytes.encode(`proof ${port ?? (url.port || '80')} ${nonce}`))
  const expected = [...new Uint8Array(sum)].map((one) => one.toString(16).padStart(2, '0')).join('')
  if (answer.proof !== expected) {
    throw new SessiondError({
      message: 'another program answers on the port of the daemon', data: { kind: 'impostor', hint: 'run `sessiond web` again' },
    })
  }
}
