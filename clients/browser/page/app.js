// The page: one connection, the list, and the session that the address names.

import { Connection, newId, prove } from '/sessiond.js'
import { Outbox } from '/outbox.js'
import { forgetToken, isCode, keepAccess, obtainAccess } from './access.js'
import { ask, field, showKeys } from './dialogs.js'
import { h, oneLine } from './dom.js'
import { Hubs } from './hubs.js'
import { giveBack } from './drafts.js'
import { recall, remember } from './settings.js'
import { answerOtherTabs, askOtherTabs } from './tabs.js'
import { copy } from './views/download.js'
import { ListView } from './views/list.js'
import { UsageView } from './views/usage.js'

const TITLE = 'Sessions'

class App {
  connection = null
  session = null
  #usage = null
  #compared = null
  #reading = null // the views in which messages are read, as soon as they are there
  #notices = []

  constructor() {
    this.outbox = new Outbox({ name: 'sessiond-page' })
    this.hubs = new Hubs(() => this.session?.showSharing())
    this.outbox.listen((name, details) => {
      if (name === 'problem') this.fail(details)
      if (name === 'refused' && details.entry.params.sessionId !== this.session?.sessionId) this.#refused(details)
    })
    this.main = document.getElementById('main')
    this.notice = document.getElementById('notice')
    this.list = new ListView(this, document.getElementById('list'), document.getElementById('query'))
    this.#theme()
    document.getElementById('help').addEventListener('click', showKeys)
    document.addEventListener('keydown', (event) => this.#key(event))
    this.main.addEventListener('copytext', ({ detail }) => this.attempt(async () => {
      await copy(detail)
      this.say('the code is on the clipboard')
    }))
    addEventListener('hashchange', () => {
      if (isCode(location.hash)) location.reload() // an address from `sessiond web --print`, put into a tab that has the page already
      else this.#route({ asked: true })
    })
    addEventListener('online', () => this.connection?.retry())
    addEventListener('unhandledrejection', (event) => event.reason?.kind !== 'disconnected' && this.fail(event.reason))
  }

  async start() {
    this.#route()
    let access = null
    let refusal = null
    try {
      access = await obtainAccess()
    } catch (error) {
      refusal = error
    }
    if (access !== null) {
      this.#connect(access)
      return
    }
    askOtherTabs((answer) => {
      keepAccess(answer)
      this.main.replaceChildren() // perhaps it said that nobody answers
      this.#connect(answer)
    }, (waits) => this.#locked(refusal, waits))
  }

  #connect(access) {
    const { token, port } = access
    const own = location.origin
    this.connection = new Connection({ url: own.replace(/^http/, 'ws'), token, client: 'web', beforeConnect: () => prove(own, token, port) })
    this.connection.on('state', (state) => this.#state(state))
    this.connection.on('problem', (error) => this.fail(error))
    this.connection.on('list/changed', () => this.list.told())
    this.connection.on('store/hubChanged', (params) => this.hubs.told(params))
    answerOtherTabs(access, this.connection)
    this.connection.connect().catch(() => {}) // `state` reports it
  }

  #state({ state, error, retryMs }) {
    document.documentElement.dataset.connection = state
    if (state === 'open') {
      this.#say('connection', null)
      this.outbox.flush(this.connection)
      this.list.begin().then(() => this.attempt(() => this.#readReading()))
      this.hubs.forget()
      this.connection.call('daemon/status').then(({ stores, readOnly }) => {
        this.list.offerStores(stores)
        this.hubs.answered(stores)
        this.#say('readOnly', readOnly && `The daemon cannot save anything now: ${readOnly.reason}. You can still read.`)
      }, (failure) => failure.kind !== 'disconnected' && this.fail(failure))
      this.#route()
    } else if (state === 'waiting') {
      const retry = h('button', { type: 'button', onclick: () => this.connection.retry() }, 'Try now')
      const away = error === null || error.kind === 'disconnected'
      const why = away ? 'The daemon is away. What you write is kept and sent when it is back; if nothing starts it, run sessiond web again.' : `${[error.message, error.hint].filter(Boolean).join(': ')}.`
      this.#say('connection', h('span', {}, `${why} Next try in ${Math.ceil(retryMs / 1000)} s. `, retry))
    } else if (state === 'refused') {
      if (error.kind === 'unauthorized') forgetToken()
      this.#locked(error)
    }
  }

  // `waits`: whether another tab may still let this one in.
  #locked(error, waits = false) {
    this.#say('connection', null)
    const why = error === null ? [] : [h('p', { class: 'problem' }, [error.message, error.hint].filter(Boolean).join(': '))]
    this.main.replaceChildren(h('section', { class: 'locked' },
      h('h2', {}, 'This page is not let in'), ...why,
      h('p', {}, 'Run ', h('code', {}, 'sessiond web'), ' in a terminal: it opens this page with access. ', h('code', {}, 'sessiond web --print'), ' prints an address instead, which works once.'),
      waits && h('p', {}, 'As soon as this page is open in another tab of this browser, it opens here, too.')))
    document.body.classList.add('reading')
  }

  // Where things are

  /** The address of a session, or of a message in it. */
  linkTo(sessionId, seq = null) {
    return `#/s/${encodeURIComponent(sessionId)}${seq === null ? '' : `/${seq}`}`
  }

  /** The address that compares two sessions. */
  compareTo(sessionId, other) {
    return `#/compare/${encodeURIComponent(sessionId)}/${encodeURIComponent(other)}`
  }

  open(sessionId, seq = null) {
    location.hash = this.linkTo(sessionId, seq)
  }

  // `asked`: the user went there. After a reconnect the view remains where it is.
  #route({ asked = false } = {}) {
    const found = /^#\/s\/([^/]+)(?:\/(\d+))?$/.exec(location.hash)
    const usage = /^#\/usage(?:\/(\w+))?$/.exec(location.hash)
    const compared = /^#\/compare\/([^/]+)\/([^/]+)$/.exec(location.hash)
    document.body.classList.toggle('reading', found !== null || usage !== null || compared !== null)
    if (this.connection === null || (this.connection.state !== 'open' && this.session === null)) return
    if ((found !== null || compared !== null) && this.#reading === null) {
      this.attempt(async () => {
        await this.#readReading()
        this.#route({ asked })
      })
      return
    }
    const sessionId = found === null ? null : decoded(found[1])
    if (this.session !== null && this.session.sessionId !== sessionId) {
      this.session.close()
      this.session = null
      this.main.replaceChildren()
    }
    this.list.mark(sessionId, found?.[2] === undefined ? null : Number(found[2]))
    this.#showUsage(usage)
    this.#showCompared(compared)
    if (usage !== null || compared !== null) return
    if (sessionId === null) {
      document.title = TITLE
      this.#welcome()
      return
    }
    const fresh = this.session === null
    if (fresh) {
      this.session = new this.#reading.SessionView(this, sessionId)
      this.main.replaceChildren(this.session.element)
      if (found[2] === undefined) this.session.window.element.focus({ preventScroll: true })
    }
    if (found[2] !== undefined && (asked || fresh)) {
      const seq = Number(found[2])
      this.attempt(() => this.session.show(seq))
      if (this.list.query !== '' && asked) this.attempt(() => this.session.hits.find(this.list.query, { at: seq, mode: this.list.mode }))
    }
  }

  // They need the libraries for Markdown and for the colours of code, which are many times as large as the rest of the page. So the
  // list is drawn first.
  async #readReading() {
    if (this.#reading !== null) return
    const [session, compare] = await Promise.all([import('./views/session.js'), import('./views/compare.js')])
    this.#reading = { ...session, ...compare }
  }

  // `found`: two sessions, or null.
  #showCompared(found) {
    this.#compared?.element.remove()
    this.#compared = null
    if (found === null) return
    document.title = 'Two branches'
    this.#compared = new this.#reading.CompareView(this, decoded(found[1]), decoded(found[2]))
    this.main.replaceChildren(this.#compared.element)
    this.#compared.element.focus({ preventScroll: true })
    this.attempt(() => this.#compared.load())
  }

  // `found`: what the address says of it, or null. After a reconnect it is read again.
  #showUsage(found) {
    const link = document.getElementById('usage')
    if (found === null) link.removeAttribute('aria-current')
    else link.setAttribute('aria-current', 'page')
    if (found === null) {
      if (this.#usage === null) return
      this.#usage.close()
      this.#usage = null
      this.main.replaceChildren()
      return
    }
    document.title = 'Usage'
    if (this.#usage === null) {
      this.#usage = new UsageView(this)
      this.main.replaceChildren(this.#usage.element)
      this.#usage.element.focus({ preventScroll: true })
    }
    this.attempt(() => this.#usage.show(found[1]))
  }

  #welcome() {
    if (this.main.childElementCount > 0) return
    this.main.append(h('div', { class: 'empty' },
      h('p', {}, 'Choose a session, or search in all of them.'),
      h('p', {}, 'What you write here is kept in the session, for every tool that has it open. No model answers it unless one of those tools does: an editor, or ',
        h('code', {}, 'sessiond repl --agent'), '.')))
  }

  /** A session was deleted here. */
  gone(sessionId) {
    this.list.load()
    if (this.session?.sessionId === sessionId) location.hash = '#/'
  }

  /** A session's name, tags or the like were changed here. */
  changed() {
    this.list.changed()
  }

  create() {
    return ask({
      title: 'New session', yes: 'Begin', fields: [field('Name', 'name', '', 'optional')],
      work: async (data) => {
        const { session } = await this.connection.call('session/new', { name: data.get('name').trim() || null })
        this.list.load()
        this.open(session.sessionId)
      },
    })
  }

  /** Keep a message until it is sent. */
  async keep(sessionId, content) {
    const message = { id: newId(), role: 'user', content, timestamp: new Date().toISOString() }
    await this.outbox.add('session/append', { sessionId, messages: [message] })
  }

  /** Send kept messages, now or when the daemon is back. */
  async send() {
    if (this.connection.state === 'open') await this.outbox.flush(this.connection)
  }

  // The daemon refused a message, and its session is not in view: the text goes into that session's field, in this tab or another one. A
  // notice is shown until the user goes there; if the browser cannot keep the text, the notice contains it.
  #refused({ entry: { params }, error }) {
    const about = `refused ${params.sessionId}`
    const text = params.messages.map((message) => message.content).join('\n\n')
    const kept = giveBack(params.sessionId, text)
    const where = h('a', { href: this.linkTo(params.sessionId), onclick: () => kept && this.#say(about, null) }, oneLine(params.sessionId))
    this.#say(about, h('span', {}, `${[error.message, error.hint].filter(Boolean).join(': ')}. Your message was not sent; ${kept ? 'it is in the field of ' : 'it was for '}`,
      where, kept ? '.' : h('pre', { tabindex: 0 }, text)))
  }

  // Notices to the user

  say(text) {
    this.#say('word', text)
    clearTimeout(this.silence)
    this.silence = setTimeout(() => this.#say('word', null), 15_000)
  }

  fail(error) {
    this.say([error?.message ?? String(error), error?.hint].filter(Boolean).join(': '))
  }

  /** Do something and report errors. */
  async attempt(work) {
    try {
      return await work()
    } catch (error) {
      this.fail(error)
      return undefined
    }
  }

  #say(kind, content) {
    this.#notices = this.#notices.filter((one) => one.kind !== kind)
    if (content) this.#notices.push({ kind, element: h('p', { class: kind }, content) })
    this.notice.replaceChildren(...this.#notices.map((one) => one.element))
  }

  #theme() {
    const root = document.documentElement
    const set = (theme) => {
      if (theme) root.dataset.theme = theme
      else delete root.dataset.theme
    }
    set(recall('theme'))
    document.getElementById('theme').addEventListener('click', () => {
      const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
      set(dark ? 'light' : 'dark')
      remember('theme', root.dataset.theme)
    })
  }

  #key(event) {
    const typing = event.target.closest('input, textarea, select, dialog')
    if (event.key === 'Escape' && !event.target.closest('dialog')) {
      if (typing) typing.blur()
      else if (this.session?.hits.open) this.session.hits.close()
      else if (this.session !== null || this.#usage !== null || this.#compared !== null) location.hash = '#/'
      return
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return
    const move = { j: 1, k: -1, g: 'first', G: 'last' }[event.key]
    if (move !== undefined && this.session !== null) this.attempt(() => this.session.move(move))
    else if (event.key === '/') document.getElementById('query').focus()
    else if (event.key === 'n' && this.connection?.state === 'open') this.create()
    else if (event.key === 'u') location.hash = '#/usage'
    else if (event.key === 'r' && this.session !== null) this.session.write()
    else if (event.key === 'f' && this.session !== null) this.session.hits.ask()
    else if ((event.key === ']' || event.key === '[') && this.session?.hits.open) this.attempt(() => this.session.hits.step(event.key === ']' ? 1 : -1))
    else if (event.key === 's' && this.connection?.state === 'open') this.list.selection.set(!this.list.selection.on)
    else if (event.key === '?') showKeys()
    else return
    event.preventDefault()
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

new App().start()
