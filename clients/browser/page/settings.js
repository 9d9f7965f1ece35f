// What the browser remembers for this page. If it cannot (switched off, full), everything still works.

/** What the names begin with in the browser's storage. */
export const PREFIX = 'sessiond.'

/** A remembered text, or null. */
export function recall(name, storage = localStorage) {
  try {
    return storage.getItem(PREFIX + name)
  } catch {
    return null
  }
}

/** Remember a text, or with null forget it. Returns whether the browser accepted it. */
export function remember(name, value, storage = localStorage) {
  try {
    if (value === null) storage.removeItem(PREFIX + name)
    else storage.setItem(PREFIX + name, value)
    return true
  } catch {
    return false
  }
}
