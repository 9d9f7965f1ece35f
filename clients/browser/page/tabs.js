// How tabs of one browser let each other in: a tab without a token asks the others on a channel, which only pages of this origin
// hear, and those that are let in answer. docs/decisions/0065-tabs-let-each-other-in.md has the threat model.

import { newId, prove, SessiondError } from '/sessiond.js'

const CHANNEL = 'sessiond.tabs'
const ANSWER_MS = 1000 // until a tab that asks says that nobody has answered

// Where a name may lead to two programs (`localhost` to 127.0.0.1 and ::1), or where nothing can be proved, nobody is let in.
const AMBIGUOUS = /(^|\.)localhost$/
const supported = () => globalThis.BroadcastChannel !== undefined && crypto.subtle !== undefined && !AMBIGUOUS.test(location.hostname)

/**
 * Ask the other tabs. `admit({token, port})` is called at most once, with the first answer that has the daemon's token. That may take
 * a while: the other tab may be asleep, or still asking too. `nobody(waits)` is called if no answer comes in time; `waits` says
 * whether one can still come.
 */
export function askOtherTabs(admit, nobody) {
  if (!supported()) {
    nobody(false)
    return
  }
  const channel = new BroadcastChannel(CHANNEL)
  const id = newId('tab')
  const ask = () => channel.postMessage({ kind: 'ask', id })
  const late = setTimeout(() => nobody(true), ANSWER_MS)
  let admitted = false
  channel.onmessage = async ({ data }) => {
    if (data?.kind === 'open') ask()
    if (data?.kind !== 'answer' || data.id !== id || typeof data.token !== 'string') return
    const { token } = data
    const port = Number(data.port) || null
    if (!(await isDaemons(token, port)) || admitted) return
    admitted = true
    clearTimeout(late)
    channel.close()
    admit({ token, port })
  }
  ask()
}

/** Answer other tabs for as long as `connection` is used, whenever it is open. */
export function answerOtherTabs({ token, port }, connection) {
  if (!supported()) return
  const channel = new BroadcastChannel(CHANNEL)
  const open = () => connection.state === 'open'
  channel.onmessage = async ({ data }) => {
    // An open connection outlives the daemon's port. So it has to be proved, too, that the port is the daemon's now.
    if (data?.kind === 'ask' && open() && (await isDaemons(token, port)) && open()) channel.postMessage({ kind: 'answer', id: data.id, token, port })
  }
  connection.on('state', ({ state }) => state === 'open' && channel.postMessage({ kind: 'open' }))
}

// Whether this port is that of the daemon with this token, at this moment.
async function isDaemons(token, port) {
  try {
    await prove(location.origin, token, port)
    return true
  } catch (error) {
    if (error instanceof SessiondError) return false
    throw error
  }
}
