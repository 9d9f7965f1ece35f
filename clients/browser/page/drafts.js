// Unsent text of sessions. A tab finds its own again when it is loaded again (sessionStorage); a new tab begins with the newest one of
// any tab (localStorage). Two tabs on one session have a text each, so neither removes what the other has.

import { PREFIX, recall, remember } from './settings.js'

const refusedOf = (sessionId) => `refused.${sessionId}`

/** The text of a message that was refused, for whichever tab has or opens its session. Returns whether the browser keeps it. */
export function giveBack(sessionId, text) {
  return remember(refusedOf(sessionId), [recall(refusedOf(sessionId)), text].filter(Boolean).join('\n\n'))
}

/** The text in the `field` of a session. `came` is called when another tab has given it something back. */
export class Draft {
  #field
  #name
  #refused
  #listener

  constructor(sessionId, field, came) {
    this.#field = field
    this.#name = `draft.${sessionId}`
    this.#refused = refusedOf(sessionId)
    field.value = recall(this.#name, sessionStorage) ?? recall(this.#name) ?? ''
    this.#takeBack()
    this.#listener = ({ key, newValue }) => {
      // The other tab has sent its own text, which was the newest: this one is now.
      if (key === PREFIX + this.#name && newValue === null && field.value !== '') this.keep()
      if (key === PREFIX + this.#refused && newValue !== null && this.#takeBack()) came()
    }
    addEventListener('storage', this.#listener)
  }

  close() {
    removeEventListener('storage', this.#listener)
  }

  /** Keep what is in the field. Returns whether the browser accepts it. */
  keep() {
    const text = this.#field.value || null
    remember(this.#name, text, sessionStorage)
    return remember(this.#name, text)
  }

  /** `text` is kept as a message now, and the field has what was written since. */
  sent(text) {
    remember(this.#name, this.#field.value || null, sessionStorage)
    if (recall(this.#name) === text) remember(this.#name, this.#field.value || null)
  }

  /** Put a text before what is in the field. */
  put(text) {
    this.#field.value = [text, this.#field.value].filter(Boolean).join('\n\n')
    this.keep()
  }

  #takeBack() {
    const text = recall(this.#refused)
    if (text === null) return false
    remember(this.#refused, null)
    this.put(text)
    return true
  }
}
