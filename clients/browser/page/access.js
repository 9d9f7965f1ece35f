// How the page gets the token: a one-time code after the `#` is exchanged for it, and removed from the address at once. The token is
// kept only for this tab, so that a reload works, and is never in a URL.

import { recall, remember } from './settings.js'

const TOKEN = 'token'
const PORT = 'port' // on which the daemon itself listens

const CODE = /^#code=([\w.-]+)$/

/** Whether the text after the `#` is a one-time code. */
export const isCode = (hash) => CODE.test(hash)

/** `{token, port}`, or null if there is neither a code nor an earlier token. Rejects with an error to show if the code is refused. */
export async function obtainAccess() {
  const found = CODE.exec(location.hash)
  if (found === null) return kept()
  history.replaceState(null, '', location.pathname)
  const response = await fetch('/token', { headers: { Authorization: `Code ${found[1]}` }, cache: 'no-store' })
  const answer = await response.json()
  if (!response.ok) {
    if (kept() !== null) return kept() // the user went back in the history, in a tab that is already admitted
    throw Object.assign(new Error(answer.error.message), { hint: answer.error.data.hint })
  }
  keepAccess(answer)
  return answer
}

/** Keep what this tab was given, for a reload. */
export function keepAccess({ token, port }) {
  remember(TOKEN, token, sessionStorage)
  remember(PORT, port === null ? null : String(port), sessionStorage)
}

function kept() {
  const token = recall(TOKEN, sessionStorage)
  return token === null ? null : { token, port: Number(recall(PORT, sessionStorage)) || null }
}

export function forgetToken() {
  remember(TOKEN, null, sessionStorage)
}
