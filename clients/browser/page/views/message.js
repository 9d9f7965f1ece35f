// One message as an article.

import { h, oneLine, timeElement, timeOfDay, oncePerFrame } from '../dom.js'
import { nest, nestedIn, showOutcome } from './calls.js'
import { asMarkdown } from './download.js'
import { code, isPicture, markdown, plain } from './markdown.js'

// A message's role may be the name of any property of objects.
const ROLES = { __proto__: null, user: 'You', assistant: 'Assistant', system: 'System', tool: 'Tool' }
const STATUS = { __proto__: null, streaming: 'still writing', interrupted: 'interrupted', error: 'ended with an error' }
const TEXTS = ['text', 'input_text', 'output_text']
const QUIET = ['tool_use', 'tool_result', 'thinking']
const PICTURES = ['image', 'image_url', 'input_image']
// What a reader should know about a message besides its speaker and time, in the words of exports.
const MARKS = [
  ['injected', 'injected by the tool'], ['sidechain', 'sidechain'], ['branch', 'other branch'], ['rewound', 'taken back'],
  ['compacted', "no longer in the tool's history"], ['shortened', "shortened in the tool's history"], ['superseded', 'an earlier form'],
  ['isError', 'failed'],
]
const FEW = 2000 // from this many characters on, a growing text is drawn less often
const SLOWLY_MS = 250

/**
 * Who says a message: its role, and which of several people that is if it is known. `subagent`: the session is one's own, so that its
 * prompts, too, are another agent's.
 */
export function speaker(message, subagent = false) {
  const prompt = message.role === 'user' && (subagent || message.metadata?.sidechain === true)
  const role = prompt ? 'Prompt to a subagent' : ROLES[message.role] ?? oneLine(message.role, 40)
  const author = typeof message.author === 'string' ? oneLine(message.author, 40) : ''
  if (!author) return role
  return message.role === 'user' && !prompt ? author : `${role} (${author})`
}

/** The article of a message. `link`: the address that leads to it. `copy`: called with its Markdown by the Copy button, which is left out without it.
 * `subagent`: as for `speaker`. */
export function messageView(message, link, copy = null, subagent = false) {
  const role = speaker(message, subagent)
  const article = h('article', {
    class: `message role-${/^[a-z]+$/.test(message.role) ? message.role : 'other'}`, 'data-seq': message.seq, tabindex: -1,
    'data-answers': message.toolCallId || null,
    'aria-posinset': message.seq, 'aria-setsize': -1, 'aria-label': `${role}, ${timeOfDay(message.timestamp)}`,
  })
  const status = h('span', { class: 'status' })
  const body = h('div', { class: 'body' })
  article.append(
    h('header', {}, h('span', { class: 'role' }, role), ' ', timeElement(message.timestamp, timeOfDay(message.timestamp)), ' ', h('span', { class: 'marks' }), status,
      copy && h('button', { type: 'button', class: 'copy', onclick: () => copy(asMarkdown(message)) }, 'Copy', h('span', { class: 'hidden' }, ` message ${message.seq}`)),
      h('a', { class: 'link', href: link, title: 'Link to this message' }, h('span', { class: 'hidden' }, 'Link to message '), `#${message.seq}`)),
    body)
  draw(article, message)
  return article
}

function draw(article, message) {
  article.querySelector('.status').textContent = STATUS[message.status] ?? ''
  const marks = MARKS.filter(([key]) => message.metadata?.[key] === true)
  article.querySelector('.marks').replaceChildren(...marks.map(([, words]) => h('span', { class: 'mark' }, words)))
  article.classList.toggle('streaming', message.status === 'streaming')
  article.classList.toggle('failed', message.metadata?.isError === true)
  article.classList.toggle('quiet', marks.length === 0 && isQuiet(message))
  const results = nestedIn(article)
  article.querySelector('.body').replaceChildren(...parts(message))
  for (const result of results) if (!nest(result, [article])) article.after(result)
  const call = article.parentElement?.closest('details.call')
  if (call) showOutcome(call)
}

// Whether it has no words of its own, but only calls, a result or thinking. Such messages are drawn as lines of one group.
function isQuiet({ role, content, status, toolCalls, thinking }) {
  if (status && status !== 'done') return false
  if (role === 'tool') return true
  const silent = typeof content === 'string' ? content === '' : content.every((block) => QUIET.includes(block?.type))
  return silent && Boolean(toolCalls?.length || thinking || content.length)
}

/** Draws an article again whenever its message has changed, but not more often than is visible. */
export function redrawer(article, message) {
  let last = 0
  let timer = null
  const now = () => {
    timer = null
    last = performance.now()
    const open = [...article.querySelectorAll('details')].map((one) => one.open)
    draw(article, message)
    article.querySelectorAll('details').forEach((one, place) => { one.open = open[place] ?? one.open })
  }
  const soon = oncePerFrame(now)
  return () => {
    const long = typeof message.content === 'string' && message.content.length > FEW && message.status === 'streaming'
    const wait = last + SLOWLY_MS - performance.now()
    if (!long || wait <= 0) soon()
    else timer ??= setTimeout(now, wait)
  }
}

function parts(message) {
  const found = []
  if (message.thinking) found.push(folded('Thinking', plain(String(message.thinking)), 'thinking'))
  const injected = message.metadata?.injected
  const content = typeof message.content === 'string' ? text(message, message.content) : message.content.map((block) => blockView(message, block))
  if (injected) found.push(folded('Added by the tool', content, 'injected'))
  else found.push(content)
  for (const call of message.toolCalls ?? []) found.push(callView(call.name, call.arguments, call.id))
  return found.flat(Infinity)
}

function text(message, content) {
  if (content === '') return []
  if (message.role === 'tool') return [folded(`${message.metadata?.isError === true ? 'Failed' : 'Result'}: ${oneLine(content, 80)}`, plain(content), 'result')]
  return [h('div', { class: 'text', dir: 'auto' }, markdown(content, message.role === 'user'))]
}

function blockView(message, block) {
  if (typeof block === 'string') return text(message, block)
  if (typeof block !== 'object' || block === null) return folded('Block', code(JSON.stringify(block, null, 2)))
  if (TEXTS.includes(block.type) && typeof block.text === 'string') return text(message, block.text)
  if (block.type === 'thinking' && typeof block.thinking === 'string') return folded('Thinking', plain(block.thinking), 'thinking')
  if (block.type === 'tool_use') return callView(block.name, block.input, block.id)
  if (block.type === 'tool_result') return folded(block.is_error === true ? 'Result: failed' : 'Result', resultView(message, block.content), 'result')
  const picture = PICTURES.includes(block.type) ? pictureOf(block) : null
  if (picture !== null) return picture
  return folded(oneLine(block.type ?? 'Block', 60), code(json(block)), 'block')
}

function resultView(message, content) {
  if (typeof content === 'string') return plain(content)
  if (Array.isArray(content)) return content.map((block) => (typeof block === 'string' ? plain(block) : TEXTS.includes(block?.type) ? plain(String(block.text)) : blockView(message, block)))
  return code(json(content))
}

function pictureOf(block) {
  const source = block.source ?? block
  const inside = typeof source.data === 'string' && `data:${source.media_type ?? source.mimeType ?? block.mimeType};base64,${source.data}`
  const url = inside || (block.image_url?.url ?? block.image_url ?? source.url)
  if (typeof url !== 'string') return null
  if (isPicture(url)) return h('img', { src: url, alt: oneLine(block.alt ?? 'Picture in this message'), loading: 'lazy' })
  if (/^https?:/i.test(url)) return h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, `Picture: ${oneLine(url, 100)}`)
  return null
}

function callView(name, input, id) {
  const shown = typeof input === 'string' ? input : json(input)
  const brief = typeof input === 'object' && input !== null ? Object.values(input).find((value) => typeof value === 'string') ?? '' : shown
  const fold = folded(`${oneLine(name ?? 'tool', 60)}  ${oneLine(brief, 80)}`, inputView(input), 'call')
  if (typeof id === 'string') fold.dataset.call = id
  return fold
}

// As JSON, but texts of several lines as they are: a file that was written can be read.
function inputView(input) {
  if (typeof input === 'string') return code(input)
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return code(json(input))
  const entries = Object.entries(input)
  const texts = entries.filter(hasLines)
  const rest = entries.filter((entry) => !hasLines(entry))
  return [
    (rest.length > 0 || texts.length === 0) && code(json(Object.fromEntries(rest))),
    ...texts.flatMap(([key, value]) => [h('p', { class: 'key' }, oneLine(key, 60)), plain(value)]),
  ]
}

function hasLines([, value]) {
  return typeof value === 'string' && value.includes('\n')
}

function json(value) {
  return JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? String(one) : one), 2) ?? ''
}

function folded(title, content, kind = '') {
  return h('details', { class: kind }, h('summary', {}, title), h('div', { class: 'inside' }, content))
}
