// Where a session came from and what came from it: parents, forks, copies in other tools, subagents, as a tree.

import { counted, h, nameOf, oneLine, timeElement } from '../dom.js'

const MOST_UP = 20 // parents that are followed
const MOST = 200 // sessions in a tree
const CHILDREN = 50 // of one session

/** The tree around a session, as `{info, children}` from its oldest known parent on; null if it is alone. */
export async function family(connection, info) {
  const above = await parents(connection, info)
  const seen = new Set()
  const tree = await grown(connection, above.at(-1) ?? info, seen)
  return above.length === 0 && tree.children.length === 0 ? null : tree
}

/** The name of the session in the tree that this one comes from, or null. */
export function parentIn(tree, sessionId) {
  for (const child of tree.children) {
    if (child.info.sessionId === sessionId) return nameOf(tree.info)
    const found = parentIn(child, sessionId)
    if (found !== null) return found
  }
  return null
}

async function parents(connection, info) {
  const found = []
  for (let at = info; at.parent && found.length < MOST_UP; at = found.at(-1)) {
    const parent = await about(connection, at.parent.sessionId)
    if (parent === null || found.some((one) => one.sessionId === parent.sessionId)) break
    found.push(parent)
  }
  return found
}

// What a list would show of one session; null if it no longer exists.
async function about(connection, sessionId) {
  try {
    const { session } = await connection.call('session/open', { sessionId, last: 1 })
    await connection.call('session/close', { sessionId })
    return session
  } catch (error) {
    if (error.kind === 'sessionNotFound' || error.kind === 'badFile' || error.kind === 'unavailable') return null
    throw error
  }
}

async function grown(connection, info, seen) {
  seen.add(info.sessionId)
  const children = []
  if (seen.size < MOST) {
    const { sessions } = await connection.call('session/list', { limit: CHILDREN, sort: 'createdAt', filter: { parent: info.sessionId } })
    for (const child of sessions) if (!seen.has(child.sessionId)) children.push(await grown(connection, child, seen))
  }
  return { info, children }
}

/** The tree as nested lists. `compare`: the address that compares a session with the current one. */
export function familyView(tree, currentId, linkTo, compare) {
  return h('ul', { class: 'family' }, branch(tree, currentId, linkTo, compare))
}

function branch({ info, children }, currentId, linkTo, compare) {
  const current = info.sessionId === currentId
  const tool = info.metadata?.source?.tool
  const told = [typeof tool === 'string' && oneLine(tool, 40), counted(info), info.parent && typeof info.parent.seq === 'number' && `from #${info.parent.seq}`].filter(Boolean)
  return h('li', {},
    h('a', { href: linkTo(info.sessionId), 'aria-current': current ? 'true' : null, dir: 'auto' }, nameOf(info)),
    h('span', { class: 'about' }, ` · ${told.join(' · ')} · `, timeElement(info.updatedAt)),
    !current && h('a', { class: 'compare', href: compare(info.sessionId) }, 'Compare', h('span', { class: 'hidden' }, ` with ${nameOf(info)}`)),
    children.length > 0 && h('ul', {}, children.map((child) => branch(child, currentId, linkTo, compare))))
}
