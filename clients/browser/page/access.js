// How the page comes by the token: a one-time code behind the `#` is exchanged for it, and goes from the address at once. The token is
// kept for this tab only, so that a reload works, and goes into no URL.

import { recall, remember } from './settings.js'

const TOKEN = 'token'

/** The token, or null where there is neither a code nor one from before. Rejects with what to tell where the code is not taken. */
export async function obtainToken() {
  const found = /^#code=([\w.-]+)$/.exec(location.hash)
  if (found === null) return recall(TOKEN, sessionStorage)
  history.replaceState(null, '', location.pathname)
  const response = await fetch('/token', { headers: { Authorization: `Code ${found[1]}` }, cache: 'no-store' })
  const answer = await response.json()
  if (!response.ok) {
    const kept = recall(TOKEN, sessionStorage) // somebody went back in the history, in a tab that is let in already
    if (kept !== null) return kept
    throw Object.assign(new Error(answer.error.message), { hint: answer.error.data.hint })
  }
  remember(TOKEN, answer.token, sessionStorage)
  return answer.token
}

export function forgetToken() {
  remember(TOKEN, null, sessionStorage)
}
