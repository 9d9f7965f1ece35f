// Requests made while the daemon was away: kept in IndexedDB, sent in order when it is back, each once.
//
// An entry is one request whose repetition adds nothing (a message by its id), so a lost answer only costs a repetition. Anything
// else has a handler, which keeps in the entry what it found before it changed anything. Tabs of one origin share the queue; one at a time sends. If IndexedDB cannot store entries (its quota is full, or it is
// switched off) they are kept in memory, and `problem` says that they will not outlive the tab.

import { Disconnected, SessiondError } from './sessiond.js'

const QUEUE = 'queue'
const SNAPSHOTS = 'snapshots'

// Temporary states of the daemon: the entry is kept and sent again later.
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
   * `name`: of the IndexedDB database. `retryMs`: how long to wait after a temporary refusal by the daemon. `handlers`: functions
   * (connection, params, keep) for entries whose `method` is not a request; `keep()` resolves when changes to `params` are kept.
   */
  constructor({ name = 'sessiond', retryMs = 2000, handlers = {} } = {}) {
    this.#name = name
    this.#handlers = handlers
    this.retryMs = retryMs
  }

  /**
   * Events as `listener(name, details)`: `problem` (error); `refused` ({entry, error}), before the entry is removed, so that a
   * listener can keep its text; `sent` (entry) and `dropped` (entry, after `refused`), after it is removed. Returns a function that
   * removes the listener.
   */
  listen(listener) {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #emit(name, details) {
    for (const listener of [...this.#listeners]) listener(name, details)
  }

  /**
   * Keep a request. Resolves when it is kept, with whether it would outlive this tab; never rejects: what cannot go to the disk is in
   * memory, and `problem` says so.
   */
  async add(method, params) {
    const entry = { method, params }
    if (this.#memory.length === 0) {
      // After an entry that is only in memory, everything must go to memory: otherwise it would be sent first.
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

  /** All waiting entries, oldest first. */
  async entries() {
    return [...(await this.#kept()), ...this.#memory]
  }

  /** Remove entries for which `test(entry)` is true. */
  async drop(test) {
    for (const entry of await this.#kept()) {
      if (test(entry)) await this.#store(QUEUE, 'readwrite', (store) => store.delete(entry.number))
    }
    this.#memory = this.#memory.filter((entry) => !test(entry))
  }

  /** Change the params of entries for which `test(entry)` is true, by `change(params)`. */
  async change(test, change) {
    for (const entry of await this.entries()) {
      if (!test(entry)) continue
      change(entry.params)
      await this.#keep(entry)
    }
  }

  async #keep(entry) {
    if (entry.number !== undefined) await this.#store(QUEUE, 'readwrite', (store) => store.put(entry))
  }

  async #kept() {
    try {
      return await this.#store(QUEUE, 'readonly', (store) => store.getAll())
    } catch (error) {
      this.#emit('problem', notKept(error))
      return []
    }
  }

  /** Send all waiting entries over a connection. Resolves when the queue is empty or sending cannot continue for now. */
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

  // The event to emit once it is out of the queue: 'sent' or 'dropped'; null if it remains.
  async #send(connection, entry) {
    try {
      const handler = this.#handlers[entry.method]
      const keep = () => this.#keep(entry)
      await (handler ? handler(connection, entry.params, keep) : connection.call(entry.method, entry.params))
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

  /** The last state that was kept under a key; undefined if there is none. */
  async snapshot(key) {
    try {
      return await this.#store(SNAPSHOTS, 'readonly', (store) => store.get(key))
    } catch {
      return undefined // it only saves a wait for the daemon
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
    const forget = () => { this.#database = null } // the next call opens it again
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

// `closed` is called when the browser closed it unexpectedly, for example because its data was cleared.
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
