// Whether shared stores are shared now: the daemon is asked once on each connection, and then tells.

import { moment, timeOfDay } from './dom.js'

export class Hubs {
  #known = new Map() // store -> HubStatus
  #changed

  /** `changed` is called after every change of what is known. */
  constructor(changed) {
    this.#changed = changed
  }

  /** The connection is new: what was known before may be old. */
  forget() {
    this.#known.clear()
  }

  /** The stores of `daemon/status`. What was told meanwhile is newer. */
  answered(stores) {
    for (const { name, hub } of stores) if (hub !== undefined && !this.#known.has(name)) this.#known.set(name, hub)
    this.#changed()
  }

  /** The params of `store/hubChanged`. */
  told({ store, hub }) {
    this.#known.set(store, hub)
    this.#changed()
  }

  /** "shared", "3 waiting" or "offline since 14:30, 3 waiting"; empty for a store that is not shared. */
  words(store) {
    const hub = this.#known.get(store)
    if (hub === undefined) return ''
    const waiting = hub.pending > 0 ? `${hub.pending.toLocaleString()} waiting` : ''
    if (hub.state === 'online') return waiting || 'shared'
    const today = new Date(hub.since).toDateString() === new Date().toDateString()
    return [`offline since ${today ? timeOfDay(hub.since) : moment(hub.since)}`, waiting].filter(Boolean).join(', ')
  }
}
