// Texts that leave the page: into a file, or onto the clipboard.

import { h } from '../dom.js'

/** Have the browser save a text as a file. */
export function download(content, name) {
  const url = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }))
  h('a', { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** Put a text onto the clipboard. Errors say why the browser refused. */
export async function copy(text) {
  if (navigator.clipboard === undefined) throw new Error('this browser gives no access to the clipboard here')
  await navigator.clipboard.writeText(text)
}

/** One message as Markdown: its text, and its calls as code. */
export function asMarkdown(message) {
  const blocks = typeof message.content === 'string' ? [message.content] : message.content.map(textOf)
  const calls = (message.toolCalls ?? []).map((call) => fenced(`${call.name} ${typeof call.arguments === 'string' ? call.arguments : json(call.arguments)}`))
  return `${[...blocks, ...calls].filter(Boolean).join('\n\n')}\n`
}

function textOf(block) {
  if (typeof block === 'string') return block
  if (['text', 'input_text', 'output_text'].includes(block?.type) && typeof block.text === 'string') return block.text
  return fenced(json(block))
}

// A fence longer than any in the text.
function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}\n${text}\n${fence}`
}

function json(value) {
  return JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? String(one) : one), 2) ?? ''
}
