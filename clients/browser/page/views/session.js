// One session: reading, writing, organising.

import { applyChange, extend } from '/sessiond.js'
import { ask, field } from '../dialogs.js'
import { counted, dayOf, h, nameOf, oneLine } from '../dom.js'
import { Draft } from '../drafts.js'
import { Doing } from './doing.js'
import { copy, download } from './download.js'
import { family, familyView, parentIn } from './family.js'
import { HitBar } from './hits.js'
import { messageView, redrawer } from './message.js'
import { resumeIn } from './resume.js'
import { ScrollWindow } from './scroll.js'

const FORMATS = { markdown: 'md', html: 'html', org: 'org', text: 'txt', json: 'json', jsonl: 'jsonl' }
const DRAFT = 'draft:'
const LAST = 80 // messages to begin with

export class SessionView {
  #app
  #room
  #messages = new Map() // id -> {message, redraw}, for those in the document
  #notes = []
  #state = {}
  #unseen = 0
  #isGone = false // it was deleted
  #parent = null // the name of the session that it comes from

  constructor(app, sessionId) {
    this.#app = app
    this.sessionId = sessionId
    this.element = h('section', { class: 'session', 'aria-label': 'Session' })
    this.title = h('h2', {}, '…')
    this.sharing = h('span', { class: 'sharing', role: 'status' })
    this.facts = h('p', { class: 'facts' })
    this.tools = h('div', { class: 'tools', role: 'group', 'aria-label': 'This session' })
    this.aside = h('details', { class: 'aside', hidden: true })
    this.relatives = h('details', { class: 'relatives', hidden: true })
    this.hits = new HitBar(
      (query, mode, limit) => app.connection.call('session/search', { query, mode, limit, filter: { sessionId } }),
      (seq) => this.show(seq),
      () => this.window.articles)
    this.window = new ScrollWindow({
      read: (params) => this.#room.call('session/read', params),
      make: (message) => this.#article(message),
      changed: () => this.#scrolled(),
    })
    this.doing = new Doing((questionId, answer) => this.#app.attempt(() => this.#answer(questionId, answer)))
    this.below = h('button', { type: 'button', class: 'below', hidden: true, onclick: () => this.window.goToEnd() })
    this.waiting = h('p', { class: 'waiting', role: 'status' })
    this.text = h('textarea', { id: 'say', rows: 2, placeholder: 'Write a message', 'aria-label': 'Write a message', 'aria-describedby': 'how', dir: 'auto' })
    this.composer = h('form', { class: 'composer' }, this.waiting, this.text, h('button', { type: 'submit', class: 'main' }, 'Send'),
      h('p', { id: 'how', class: 'hint' }, `${/Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl'}+Enter sends`))
    this.element.append(
      h('header', { class: 'head' },
        h('a', { class: 'back', href: '#/' }, h('span', { 'aria-hidden': 'true' }, '‹ '), 'All sessions'), h('div', { class: 'named' }, this.title, this.sharing),
        this.facts, this.tools),
      this.hits.element, this.relatives, this.aside, this.window.element, this.below, this.doing.element, this.composer)
    this.#compose()
    this.#follow()
  }

  /** Bring a message into view and put the focus on it. */
  async show(seq) {
    await this.#room.opened
    const article = await this.window.goTo(seq)
    if (article === null) return this.#app.say('this message no longer exists')
    for (const one of this.element.querySelectorAll('.pointed')) one.classList.remove('pointed')
    article.classList.add('pointed')
    article.focus({ preventScroll: true })
    this.#app.list.mark(this.sessionId, seq)
  }

  /** The next or previous message, or the first or last one, gets the focus. */
  async move(step) {
    if (step === 'first' || step === 'last') {
      await (step === 'first' ? this.window.goToStart() : this.window.goToEnd())
      this.window.unfolded.at(step === 'first' ? 0 : -1)?.focus()
      return
    }
    const articles = this.window.unfolded
    const top = this.window.element.getBoundingClientRect().top
    const current = articles.indexOf(document.activeElement?.closest('.message'))
    const place = current >= 0 ? current + step : articles.findIndex((one) => one.getBoundingClientRect().bottom > top + 4)
    const next = articles[Math.max(0, Math.min(articles.length - 1, place))]
    next?.scrollIntoView({ block: 'nearest' })
    next?.focus({ preventScroll: true })
  }

  /** Whether what is said here is shared, waits, or since when the hub is away; nothing where the store is not shared. */
  showSharing() {
    const words = this.#app.hubs.words(this.#room.info?.store)
    if (this.sharing.textContent !== words) this.sharing.textContent = words // a screen reader says it again where it is set again
  }

  write() {
    this.text.focus()
  }

  close() {
    this.hits.close()
    this.window.close()
    this.unlisten()
    this.draft.close()
    this.#room.close().catch((error) => error.kind === 'disconnected' || this.#app.fail(error))
  }

  #follow() {
    const room = (this.#room = this.#app.connection.follow(this.sessionId, { last: LAST }))
    room.on('opened', (result) => this.#begin(result))
    room.on('reset', (result) => this.#begin(result))
    room.on('change', (change) => this.#change(change))
    room.on('activityChanged', ({ activity }) => this.doing.show(activity))
    room.on('caughtUp', (result) => this.doing.show(result.session.activity))
    room.on('deleted', ({ movedTo }) => this.#ended(movedTo))
    room.on('problem', (error) => this.#over([error.message, error.hint].filter(Boolean).join(': ')))
    this.unlisten = this.#app.outbox.listen((name, details) => {
      if (name === 'refused' && details.entry.params.sessionId === this.sessionId) this.#refused(details)
      if (name === 'sent' || name === 'dropped') this.#countWaiting()
    })
    this.#countWaiting()
  }

  #begin(result) {
    this.#messages.clear()
    this.#notes = [...result.notes]
    this.#state = { ...result.state }
    this.element.classList.remove('over')
    this.composer.hidden = false
    this.#inform(result.session)
    this.doing.show(result.session.activity)
    this.#fillAside()
    this.#app.attempt(() => this.#findFamily(result.session))
    const place = this.window.place
    this.window.begin(result)
    if (place !== null) this.#app.attempt(() => this.window.goTo(place)) // it was read again; stay where the user was reading
    for (const warning of result.warnings ?? []) this.#app.say(`${warning.path}:${warning.line ?? ''} ${warning.message}`)
  }

  #ended(movedTo) {
    this.#isGone = movedTo === null
    if (this.#isGone) this.#over('This session was deleted. It is in the trash, unless it was deleted for good.')
    else this.#over('This session was moved:', h('a', { href: this.#app.linkTo(movedTo) }, oneLine(movedTo)))
  }

  /** Something happened to a session: if this one was deleted, it may be restored by now. */
  async look() {
    if (!this.#isGone) return
    try {
      await this.#app.connection.call('session/read', { sessionId: this.sessionId, last: 0 })
    } catch (error) {
      if (error.kind === 'sessionNotFound' || error.kind === 'disconnected') return
      throw error
    }
    if (!this.#isGone) return
    this.#isGone = false
    this.unlisten()
    this.#follow()
  }

  #over(text, ...more) {
    this.doing.show(null)
    this.element.classList.add('over')
    this.composer.hidden = this.text.value === '' // so that the written text can still be copied
    this.#app.say(text)
    this.facts.replaceChildren(text, ...more.flatMap((one) => [' ', one]))
  }

  #change(change) {
    if (change.kind === 'appended') {
      this.window.append(change.messages)
      if (!this.window.atEnd) this.#unseen += change.messages.length
      this.#room.info = { ...this.#room.info, messageCount: this.#room.info.messageCount + change.messages.length, seq: Math.max(this.#room.info.seq, change.seq) }
      this.#inform(this.#room.info)
      this.window.update(this.#room.info)
      this.#scrolled()
    } else if (change.kind === 'extended' || change.kind === 'finished') {
      const held = this.#messages.get(change.messageId)
      if (held === undefined) return
      if (change.kind === 'extended') extend(held.message, change)
      else applyChange({ messages: [held.message] }, change)
      held.redraw()
    } else if (change.kind === 'updated') {
      this.#inform(change.session)
      this.window.update(change.session)
    } else if (change.kind === 'note' || change.kind === 'state') {
      const model = { notes: this.#notes, state: this.#state }
      if (applyChange(model, change)) this.#fillAside()
    } else if (change.kind === 'cleared') {
      this.window.remove((seq) => seq < change.seq)
    } else if (change.kind === 'truncated') {
      this.window.remove((seq) => seq > change.afterSeq && seq < change.seq)
    }
  }

  #article(message) {
    const held = { ...message }
    const article = messageView(held, this.#app.linkTo(this.sessionId, message.seq), (text) => this.#app.attempt(async () => {
      await copy(text)
      this.#app.say('the message is on the clipboard, as Markdown')
    }), this.#room.info?.metadata?.sidechain === true)
    this.#messages.set(message.id, { message: held, redraw: redrawer(article, held) })
    if (this.#messages.size > 5000) this.#forgetFar()
    return article
  }

  #forgetFar() {
    for (const id of this.#messages.keys()) if (this.window.find(id) === null) this.#messages.delete(id)
  }

  #scrolled() {
    if (this.window.atEnd) this.#unseen = 0
    this.below.hidden = this.window.atEnd
    if (this.hits.open) this.hits.mark()
    this.below.textContent = this.#unseen > 0 ? `${this.#unseen} new ↓` : 'To the end ↓'
  }

  #inform(info) {
    this.title.textContent = nameOf(info)
    this.showSharing()
    document.title = `${nameOf(info)} · Sessions`
    this.facts.replaceChildren(
      `${counted(info)} · ${dayOf(info.createdAt)}`,
      ...[info.model && ` · ${oneLine(info.model, 60)}`, info.cwd && ` · ${oneLine(info.cwd, 120)}`, info.archived && ' · archived'].filter(Boolean),
      ...this.#origin(info),
      ...info.tags.map((tag) => h('span', { class: 'tag' }, oneLine(tag, 60))))
    const button = (label, onclick) => h('button', { type: 'button', onclick }, label)
    if (this.tools.childElementCount === 0) {
      this.archive = button('Archive', () => this.#update({ archived: !this.#room.info.archived }))
      this.tools.append(
        button('Rename', () => this.#rename()), button('Tags', () => this.#tag()), this.archive, button('Export', () => this.#export()),
        button('Copy', () => this.#copy()), button('Find', () => this.hits.ask()),
        button('Fork', () => this.#fork()), button('Resume in…', () => resumeIn(this.sessionId, (text) => this.#app.say(text))), button('Delete', () => this.#delete()))
    }
    this.archive.textContent = info.archived ? 'Unarchive' : 'Archive'
  }

  async #answer(questionId, answer) {
    const { accepted } = await this.#room.call('session/answer', { questionId, ...answer })
    if (!accepted) this.#app.say('This was answered before, or it is not asked any more.')
  }

  // What it is a fork or a subagent of.
  #origin({ parent, metadata }) {
    if (!parent) return []
    const what = metadata?.sidechain === true ? 'subagent of ' : 'forked from '
    return [` · ${what}`, h('a', { class: 'origin', href: this.#app.linkTo(parent.sessionId, parent.seq ?? null) }, this.#parent ?? oneLine(parent.sessionId, 60))]
  }

  // Parents, forks, subagents and copies in other tools.
  async #findFamily(info) {
    const tree = await family(this.#app.connection, info)
    this.relatives.hidden = tree === null
    if (tree === null) return
    this.#parent = parentIn(tree, this.sessionId)
    this.#inform(this.#room.info)
    const compare = (other) => this.#app.compareTo(this.sessionId, other)
    this.relatives.replaceChildren(h('summary', {}, 'Forks and relatives'),
      h('div', { class: 'inside' }, familyView(tree, this.sessionId, (id) => this.#app.linkTo(id), compare)))
  }

  // Notes and state, next to the conversation; state is shown as its JSON.
  #fillAside() {
    const keys = Object.keys(this.#state).filter((key) => !key.startsWith(DRAFT)) // what somebody is typing in an editor
    this.aside.hidden = this.#notes.length === 0 && keys.length === 0
    const parts = [this.#notes.length && `${this.#notes.length} ${this.#notes.length === 1 ? 'note' : 'notes'}`, keys.length && `state: ${keys.map((key) => oneLine(key, 30)).join(', ')}`]
    const inside = h('div', { class: 'inside' })
    this.aside.replaceChildren(h('summary', {}, parts.filter(Boolean).join(' · ')), inside)
    const fill = () => {
      if (!this.aside.open || inside.childElementCount > 0) return
      for (const note of this.#notes) inside.append(h('h3', {}, oneLine(note.heading)), h('p', { class: 'note', dir: 'auto' }, note.content))
      for (const key of keys) {
        const text = JSON.stringify(this.#state[key], (_, one) => (typeof one === 'bigint' ? String(one) : one), 2)
        inside.append(h('h3', {}, oneLine(key)), h('pre', { tabindex: 0 }, text.length > 20_000 ? `${text.slice(0, 20_000)}…` : text))
      }
    }
    this.aside.ontoggle = fill
    fill()
  }

  // Actions

  #update(fields) {
    return this.#app.attempt(async () => {
      const { session } = await this.#room.call('session/update', fields)
      this.#inform(session)
      this.#app.changed(session)
    })
  }

  #rename() {
    return ask({
      title: 'Rename', fields: [field('Name', 'name', this.#room.info.name ?? '')],
      work: async (data) => {
        const { session } = await this.#room.call('session/update', { name: data.get('name').trim() || null })
        this.#app.changed(session)
      },
    })
  }

  #tag() {
    return ask({
      title: 'Tags', fields: [field('Tags', 'tags', this.#room.info.tags.join(', '), 'separated by commas')],
      work: async (data) => {
        const tags = data.get('tags').split(',').map((tag) => tag.trim()).filter(Boolean)
        const { session } = await this.#room.call('session/update', { tags })
        this.#app.changed(session)
      },
    })
  }

  #export() {
    const select = h('select', { id: 'field-format', name: 'format' }, Object.keys(FORMATS).map((format) => h('option', { value: format }, format)))
    return ask({
      title: 'Export', yes: 'Download', fields: [h('div', { class: 'field' }, h('label', { for: 'field-format' }, 'Format'), select)],
      work: async (data) => {
        const format = data.get('format')
        const { content } = await this.#room.call('session/export', { format })
        download(content, `${this.sessionId.replace(/[^\w.-]+/g, '-')}.${FORMATS[format]}`)
      },
    })
  }

  #copy() {
    return this.#app.attempt(async () => {
      const { content } = await this.#room.call('session/export', { format: 'markdown' })
      await copy(content)
      this.#app.say('the session is on the clipboard, as Markdown')
    })
  }

  #fork() {
    const { info } = this.#room
    const at = field('Up to message', 'at', this.element.querySelector('.pointed')?.dataset.seq ?? '', 'its number, as in #12; empty: all of them')
    at.querySelector('input').inputMode = 'numeric'
    return ask({
      title: 'Fork', yes: 'Fork', fields: [h('p', {}, `A new session that begins as “${nameOf(info)}” does and goes its own way from there.`), at, field('Name', 'name', '', 'optional')],
      work: async (data) => {
        const name = data.get('name').trim()
        const last = data.get('at').trim().replace(/^#/, '')
        if (!/^\d*$/.test(last)) throw new Error(`“${last}” is not the number of a message`)
        const { session } = await this.#room.call('session/fork', { ...(name && { name }), ...(last && { atSeq: Number(last) }) })
        this.#app.changed(session)
        this.#app.open(session.sessionId)
      },
    })
  }

  async #delete() {
    const sure = await ask({
      title: `Delete “${nameOf(this.#room.info)}”?`, yes: 'Delete', fields: [h('p', {}, 'It goes to the trash. You can restore it from there.')],
      work: () => this.#room.call('session/delete'),
    })
    if (sure !== null) {
      this.#app.say('deleted; it is in the trash')
      this.#app.gone(this.sessionId)
    }
  }

  // Writing

  #compose() {
    this.draft = new Draft(this.sessionId, this.text, () => { this.composer.hidden = false })
    let warned = false
    this.text.addEventListener('input', () => {
      if (!this.draft.keep() && !warned) {
        warned = true
        this.#app.say('the browser has no room to keep this draft; send it before you leave')
      }
    })
    this.text.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault()
        this.composer.requestSubmit()
      }
    })
    this.composer.addEventListener('submit', (event) => {
      event.preventDefault()
      const content = this.text.value
      if (content.trim() === '') return
      this.text.value = ''
      this.window.toEnd()
      this.#app.attempt(async () => {
        await this.#app.keep(this.sessionId, content)
        this.draft.sent(content) // not earlier: the tab may be closed at any moment
        await this.#app.send()
        await this.#countWaiting()
      })
    })
  }

  async #countWaiting() {
    const count = (await this.#app.outbox.entries()).filter((entry) => entry.params.sessionId === this.sessionId).length
    this.waiting.textContent = count === 0 ? '' : `${count === 1 ? 'One message waits' : `${count} messages wait`} for the daemon; kept in this browser.`
  }

  // The daemon refused it: the text goes back to where it can be changed or copied.
  #refused({ entry, error }) {
    const text = entry.params.messages?.map((message) => message.content).join('\n\n') ?? ''
    this.draft.put(text)
    this.composer.hidden = false
    this.#app.fail(error)
  }
}
