// What was written while the daemon was away: kept in IndexedDB, sent in order when it is back, each once.
//
// An entry is one request whose repetition adds nothing (a message by its id, a whole value of state), so a lost answer costs a
// repetition and no more. Tabs of one origin share the queue; one at a time sends. Where IndexedDB takes nothing (its quota is
// full, or it is switched off) entries are kept in memory, and `problem` says that they will not outlive the tab.

import { Disconnected, SessiondError } from './sessiond.js'

const QUEUE = 'queue'
const SNAPSHOTS = 'snapshots'

// Temporary states of the daemon: the entry stays and is sent again later.
const LATER = new Set(['disconnected', 'readOnly', 'indeterminate', 'unavailable', 'internalError', 'cancelled'])

export class Outbox {
  #name
  #database = null
  #memory = []
  #listeners = new Set()
  #flushing = null
  #again = false
  #timer = null
  #handlers

  /**
   * `name`: of the IndexedDB database. `retryMs`: how long to wait after a temporary refusal by the daemon. `handlers`: what to do for
   * entries whose `method` is no request, as (connection, params).
   */
  constructor({ name = 'sessiond', retryMs = 2000, handlers = {} } = {}) {
    this.#name = name
    this.#handlers = handlers
    this.retryMs = retryMs
  }

  /**
   * Events as `listener(name, details)`: `problem` (error); `refused` ({entry, error}), told before the entry is taken out, so that a
   * listener can keep its words; `sent` (entry) and `dropped` (entry, after `refused`), told when it is out. Returns what ends it.
   */
  listen(listener) {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #emit(name, details) {
    for (const listener of [...this.#listeners]) listener(name, details)
  }

  /**
   * Keep a request. Resolves when it is kept, with whether it would outlive this tab; rejects never: what the disk does not take is
   * in memory, and `problem` says so.
   */
  async add(method, params) {
    const entry = { method, params }
    if (this.#memory.length === 0) {
      // Behind what only memory has nothing may be put elsewhere: it would be sent first.
      try {
        await this.#store(QUEUE, 'readwrite', (store) => store.add(entry))
        return true
      } catch (error) {
        this.#emit('problem', notKept(error))
      }
    }
    this.#memory.push(entry)
    return false
  }

  /** All that waits, oldest first. */
  async entries() {
    return [...(await this.#kept()), ...this.#memory]
  }

  /** Take out of the queue what `test(entry)` holds for. */
  async drop(test) {
    for (const entry of await this.#kept()) {
      if (test(entry)) await this.#store(QUEUE, 'readwrite', (store) => store.delete(entry.number))
    }
    this.#memory = this.#memory.filter((entry) => !test(entry))
  }

  async #kept() {
    try {
      return await this.#store(QUEUE, 'readonly', (store) => store.getAll())
    } catch (error) {
      this.#emit('problem', notKept(error))
      return []
    }
  }

  /** Send all that waits over a connection. Resolves when nothing waits any more or it cannot go on for now. */
  flush(connection) {
    this.#again = true
    this.#flushing ??= this.#run(connection).finally(() => { this.#flushing = null })
    return this.#flushing
  }

  async #run(connection) {
    while (this.#again) {
      this.#again = false
      const send = () => this.#sendAll(connection)
      await (globalThis.navigator?.locks ? navigator.locks.request(`sessiond-outbox-${this.#name}`, send) : send())
    }
  }

  async #sendAll(connection) {
    clearTimeout(this.#timer)
    for (const entry of await this.#kept()) {
      const outcome = await this.#send(connection, entry)
      if (outcome === null) return
      await this.#store(QUEUE, 'readwrite', (store) => store.delete(entry.number))
      this.#emit(outcome, entry)
    }
    while (this.#memory.length > 0) {
      const entry = this.#memory[0]
      const outcome = await this.#send(connection, entry)
      if (outcome === null) return
      this.#memory = this.#memory.filter((one) => one !== entry)
      this.#emit(outcome, entry)
    }
  }

  // What to tell of it once it is out of the queue: 'sent' or 'dropped'; null where it stays.
  async #send(connection, entry) {
    try {
      const handler = this.#handlers[entry.method]
      await (handler ? handler(connection, entry.params) : connection.call(entry.method, entry.params))
    } catch (error) {
      if (error instanceof SessiondError && !LATER.has(error.kind)) {
        this.#emit('refused', { entry, error })
        return 'dropped'
      }
      if (!(error instanceof Disconnected)) {
        this.#emit('problem', error)
        this.#timer = setTimeout(() => this.flush(connection), this.retryMs)
      }
      return null
    }
    return 'sent'
  }

  /** The last state that was kept under a key; undefined if none. */
  async snapshot(key) {
    try {
      return await this.#store(SNAPSHOTS, 'readonly', (store) => store.get(key))
    } catch {
      return undefined // it only spares a wait for the daemon
    }
  }

  async keepSnapshot(key, value) {
    try {
      await this.#store(SNAPSHOTS, 'readwrite', (store) => (value === null ? store.delete(key) : store.put(value, key)))
    } catch (error) {
      this.#emit('problem', notKept(error))
    }
  }

  async #store(name, mode, work) {
    const forget = () => { this.#database = null } // opened anew by whatever comes next
    this.#database ??= openDatabase(this.#name, forget).catch((error) => {
      forget()
      throw error
    })
    const database = await this.#database
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(name, mode, { durability: 'strict' })
      const request = work(transaction.objectStore(name))
      transaction.oncomplete = () => resolve(request.result)
      transaction.onabort = transaction.onerror = () => reject(transaction.error ?? request.error)
    })
  }
}

// `closed` is called when the browser closed it under us: its data were cleared, say.
function openDatabase(name, closed) {
  return new Promise((resolve, reject) => {
    if (globalThis.indexedDB === undefined) throw new Error('IndexedDB is switched off')
    const request = indexedDB.open(name, 1)
    request.onupgradeneeded = () => {
      request.result.createObjectStore(QUEUE, { keyPath: 'number', autoIncrement: true })
      request.result.createObjectStore(SNAPSHOTS)
    }
    request.onsuccess = () => {
      request.result.onclose = closed
      resolve(request.result)
    }
    request.onerror = () => reject(request.error)
  })
}

function notKept(error) {
  const full = error?.name === 'QuotaExceededError'
  return new SessiondError({
    message: full ? 'the browser has no room to keep what was not sent yet' : `the browser does not keep what was not sent yet: ${error?.message ?? error}`,
    data: { kind: full ? 'quota' : 'notKept', hint: 'leave this tab open till the daemon is back, or free some space' },
  })
}
