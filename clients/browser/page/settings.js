// What the browser remembers for this page. Where it remembers nothing (switched off, full) everything still works.

const PREFIX = 'sessiond.'

/** Under what is remembered what was written for a session and not sent. */
export const draftOf = (sessionId) => `draft.${sessionId}`

/** A remembered text, or null. */
export function recall(name, storage = localStorage) {
  try {
    return storage.getItem(PREFIX + name)
  } catch {
    return null
  }
}

/** Remember a text, or with null forget it. Whether the browser took it. */
export function remember(name, value, storage = localStorage) {
  try {
    if (value === null) storage.removeItem(PREFIX + name)
    else storage.setItem(PREFIX + name, value)
    return true
  } catch {
    return false
  }
}
