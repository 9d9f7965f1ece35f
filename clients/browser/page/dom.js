// Elements without markup in strings.

/** An element: `h('button', { type: 'button', onclick }, 'Save')`. `on...` are listeners, `null` and `false` are left out.
 * Children may be lists of children, to any depth. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (key === 'class') element.className = value
    else element.setAttribute(key, value === true ? '' : String(value))
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false))
  return element
}

/** An element of a drawing, as `h`, without listeners. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value))
  element.append(...children)
  return element
}

/** One line without control characters or marks that change the direction of the text around it. */
export function oneLine(text, most = 200) {
  const line = String(text).slice(0, most * 4).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, ' ').replace(/\s+/g, ' ').trim()
  return line.length > most ? `${line.slice(0, most - 1)}…` : line
}

/** The name of a session for people. */
export function nameOf(session) {
  return oneLine(session.name || session.summary || session.sessionId)
}

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })
const DAY = new Intl.DateTimeFormat(undefined, { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' })

export const moment = (stamp) => format(WHEN, stamp)
export const timeOfDay = (stamp) => format(TIME, stamp)
export const dayOf = (stamp) => format(DAY, stamp)

/** How many messages a session has, in words. */
export function counted({ messageCount }) {
  return `${messageCount.toLocaleString()} ${messageCount === 1 ? 'message' : 'messages'}`
}

export function timeElement(stamp, text = moment(stamp)) {
  return h('time', { datetime: stamp, title: moment(stamp) }, text)
}

function format(formatter, stamp) {
  const date = new Date(stamp)
  return Number.isNaN(date.valueOf()) ? String(stamp) : formatter.format(date)
}

/** `work` at most once in a frame, however often it is requested. */
export function oncePerFrame(work) {
  let planned = false
  return () => {
    if (planned) return
    planned = true
    requestAnimationFrame(() => {
      planned = false
      work()
    })
  }
}
