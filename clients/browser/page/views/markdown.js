// Markdown to elements that cannot run anything: the renderer does not produce raw HTML, and its output goes through the
// sanitizer, which leaves only HTML (no SVG, no MathML, no forms, no styles) and links to the web and mail.

import MarkdownIt from '../vendor/markdown-it.js'
import DOMPurify from '../vendor/purify.js'
import hljs from '../vendor/highlight.js'
import { h } from '../dom.js'

const MOST = 100_000 // characters; longer texts are shown as they are
const MOST_CODE = 50_000

const renderer = new MarkdownIt({
  html: false,
  linkify: true,
  highlight(code, language) {
    if (!hljs.getLanguage(language) || code.length > MOST_CODE) return ''
    return hljs.highlight(code, { language, ignoreIllegals: true }).value
  },
})

// Images are shown if they are inside the text; an external one would tell that site who reads this, so it is a link.
renderer.renderer.rules.image = (tokens, index) => {
  const token = tokens[index]
  const source = token.attrGet('src') ?? ''
  const escape = renderer.utils.escapeHtml
  if (IMAGE.test(source)) return `<img src="${escape(source)}" alt="${escape(token.content)}">`
  return `<a href="${escape(source)}">${escape(token.content || source)}</a>`
}
const IMAGE = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]+$/

// The columns of a table are aligned by a class: the page's policy forbids styles in elements.
for (const rule of ['th_open', 'td_open']) {
  renderer.renderer.rules[rule] = (tokens, index, options, _, self) => {
    const token = tokens[index]
    const align = /^text-align:(left|center|right)$/.exec(token.attrGet('style') ?? '')
    token.attrs = align ? [['class', `align-${align[1]}`]] : null
    return self.renderToken(tokens, index, options)
  }
}

const validateLink = renderer.validateLink
renderer.validateLink = (url) => IMAGE.test(url) || (validateLink(url) && !/^\s*data:/i.test(url))

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'A' && node.hasAttribute('href')) {
    node.setAttribute('target', '_blank')
    node.setAttribute('rel', 'noopener noreferrer')
  }
  if (node.tagName === 'PRE') node.setAttribute('tabindex', '0') // it scrolls sideways, so the keyboard must reach it
})

const RULES = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ['style', 'form', 'input', 'button', 'select', 'textarea', 'option', 'dialog', 'video', 'audio', 'source', 'picture', 'template', 'slot', 'link', 'meta', 'base'],
  FORBID_ATTR: ['style', 'id', 'name', 'srcset', 'background', 'poster', 'ping', 'action', 'formaction', 'popovertarget'],
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp|avif);base64,)/i,
  RETURN_DOM_FRAGMENT: true,
}

/** A text as elements. `typed`: a person wrote it, so that its line ends are line ends. */
export function markdown(text, typed = false) {
  if (text.length > MOST) return plain(text)
  let html
  try {
    html = renderer.set({ breaks: typed }).render(text)
  } catch (error) {
    console.error('showing a text as it is, because it could not be rendered:', error)
    return plain(text)
  }
  const fragment = DOMPurify.sanitize(html, RULES)
  for (const block of fragment.querySelectorAll('pre')) {
    const box = h('div', { class: 'code' })
    block.replaceWith(box)
    box.append(block, copier(block.textContent))
  }
  return fragment
}

// The button announces what is to be copied; whoever shows the text does it.
function copier(text) {
  const announce = (event) => event.target.dispatchEvent(new CustomEvent('copytext', { bubbles: true, detail: text }))
  return h('button', { type: 'button', class: 'copy', onclick: announce }, 'Copy', h('span', { class: 'hidden' }, ' this code'))
}

/** A text unchanged, with the end of a very long one folded. */
export function plain(text) {
  const fragment = document.createDocumentFragment()
  fragment.append(h('pre', { class: 'plain', tabindex: 0 }, text.slice(0, MOST)))
  if (text.length > MOST) {
    const rest = h('details', {}, h('summary', {}, `${(text.length - MOST).toLocaleString()} more characters`))
    rest.addEventListener('toggle', () => rest.childElementCount === 1 && rest.append(h('pre', { class: 'plain', tabindex: 0 }, text.slice(MOST))))
    fragment.append(rest)
  }
  return fragment
}

/** JSON or a piece of code, coloured. */
export function code(text, language = 'json') {
  const element = h('code', { class: `language-${language}` })
  if (text.length > MOST_CODE) element.append(text)
  else element.append(DOMPurify.sanitize(hljs.highlight(text, { language, ignoreIllegals: true }).value, RULES))
  return h('div', { class: 'code' }, h('pre', { tabindex: 0 }, element), copier(text))
}

export function isPicture(source) {
  return IMAGE.test(source)
}
