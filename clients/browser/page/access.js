// How the page comes by the token: a one-time code behind the `#` is exchanged for it, and goes from the address at once. The token is
// kept for this tab only, so that a reload works, and goes into no URL.

import { recall, remember } from './settings.js'

const TOKEN = 'token'
const PORT = 'port' // on which the daemon itself listens

const CODE = /^#code=([\w.-]+)$/

/** Whether what stands behind the `#` is a one-time code. */
export const isCode = (hash) => CODE.test(hash)

/** `{token, port}`, or null where there is neither a code nor a token from before. Rejects with what to tell where the code is not taken. */
export async function obtainAccess() {
  const found = CODE.exec(location.hash)
  if (found === null) return kept()
  history.replaceState(null, '', location.pathname)
  const response = await fetch('/token', { headers: { Authorization: `Code ${found[1]}` }, cache: 'no-store' })
  const answer = await response.json()
  if (!response.ok) {
    if (kept() !== null) return kept() // somebody went back in the history, in a tab that is let in already
    throw Object.assign(new Error(answer.error.message), { hint: answer.error.data.hint })
  }
  remember(TOKEN, answer.token, sessionStorage)
  remember(PORT, String(answer.port), sessionStorage)
  return answer
}

function kept() {
  const token = recall(TOKEN, sessionStorage)
  return token === null ? null : { token, port: Number(recall(PORT, sessionStorage)) || null }
}

export function forgetToken() {
  remember(TOKEN, null, sessionStorage)
}
