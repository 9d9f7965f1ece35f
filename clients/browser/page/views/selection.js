// Several sessions at once: which are chosen, and what can be done with them.

import { ask, field } from '../dialogs.js'
import { h } from '../dom.js'
import { download } from './download.js'

const TRIES = 10
const FORMATS = { markdown: 'md', org: 'org', text: 'txt', jsonl: 'jsonl', json: 'json' }

export class Selection {
  #app
  #chosen = new Set() // session ids

  /** `changed` is called when choosing begins or ends. */
  constructor(app, changed) {
    this.#app = app
    this.on = false
    this.changed = changed
    this.toggle = h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => this.set(!this.on) }, 'Select')
    this.count = h('span', { role: 'status' })
    const button = (label, work) => h('button', { type: 'button', onclick: work }, label)
    this.bar = h('div', { class: 'selection', role: 'group', 'aria-label': 'Chosen sessions', hidden: true }, this.count,
      button('Tag', () => this.#tag()), button('Archive', () => this.#archive()), button('Export', () => this.#export()), button('Delete', () => this.#delete()))
    this.#say()
  }

  set(on) {
    this.on = on
    if (!on) this.#chosen.clear()
    this.toggle.setAttribute('aria-pressed', String(on))
    this.toggle.textContent = on ? 'Done' : 'Select'
    this.bar.hidden = !on
    this.#say()
    this.changed()
  }

  /** A row of the list, with a box to choose it while choosing is on. */
  row(sessionId, name, link) {
    if (!this.on) return link
    const box = h('input', { type: 'checkbox', 'data-pick': sessionId, 'aria-label': `Choose ${name}` })
    box.checked = this.#chosen.has(sessionId)
    box.addEventListener('change', () => this.#choose(sessionId, box.checked))
    return h('div', { class: 'pick' }, box, link)
  }

  /** Choose the session, or no longer; begins choosing. */
  flip(sessionId) {
    if (!this.on) this.set(true)
    this.#choose(sessionId, !this.#chosen.has(sessionId))
  }

  #choose(sessionId, chosen) {
    if (chosen) this.#chosen.add(sessionId)
    else this.#chosen.delete(sessionId)
    for (const box of document.querySelectorAll(`[data-pick="${CSS.escape(sessionId)}"]`)) box.checked = chosen // a search may show a session in several rows
    this.#say()
  }

  #say() {
    const count = this.#chosen.size
    this.count.textContent = `${count.toLocaleString()} chosen`
    for (const button of this.bar.querySelectorAll('button')) button.disabled = count === 0
  }

  /** Do it for each of them; those that fail stay chosen, and the first reason is shown. */
  async #each(work, done) {
    let failure = null
    let count = 0
    for (const sessionId of [...this.#chosen]) {
      try {
        await work(sessionId)
        count += 1
        this.#choose(sessionId, false)
      } catch (error) {
        failure ??= error
      }
    }
    this.#app.changed()
    if (failure !== null) throw failure
    this.#app.say(`${count.toLocaleString()} ${count === 1 ? 'session' : 'sessions'} ${done}`)
    this.set(false)
  }

  #call(method, params) {
    return this.#app.connection.call(method, params)
  }

  #tag() {
    return ask({
      title: 'Add a tag', yes: 'Add', fields: [field('Tags', 'tags', '', 'separated by commas')],
      work: async (data) => {
        const more = data.get('tags').split(',').map((tag) => tag.trim()).filter(Boolean)
        await this.#each((sessionId) => this.#tagOne(sessionId, more), 'tagged')
      },
    })
  }

  // As it is now: the list shows what it was when it was drawn. If two programs tag at once, both succeed.
  async #tagOne(sessionId, more) {
    const stays = this.#app.session?.sessionId === sessionId
    for (let attempt = 1; ; attempt++) {
      const { session } = await this.#call('session/open', { sessionId, last: 0 })
      try {
        await this.#call('session/update', { sessionId, tags: [...new Set([...session.tags, ...more])], expectedSeq: session.seq })
        return
      } catch (error) {
        if (error.kind !== 'conflict' || attempt === TRIES) throw error
      } finally {
        if (!stays) await this.#call('session/close', { sessionId })
      }
    }
  }

  #archive() {
    return this.#app.attempt(() => this.#each((sessionId) => this.#call('session/update', { sessionId, archived: true }), 'archived'))
  }

  async #delete() {
    const count = this.#chosen.size
    await ask({
      title: `Delete ${count.toLocaleString()} ${count === 1 ? 'session' : 'sessions'}?`, yes: 'Delete', fields: [h('p', {}, 'They go to the trash. You can restore them from there.')],
      work: () => this.#each(async (sessionId) => {
        await this.#call('session/delete', { sessionId })
        this.#app.gone(sessionId)
      }, 'deleted; they are in the trash'),
    })
  }

  #export() {
    const select = h('select', { id: 'field-format', name: 'format' }, Object.keys(FORMATS).map((format) => h('option', { value: format }, format)))
    return ask({
      title: 'Export into one file', yes: 'Download', fields: [h('div', { class: 'field' }, h('label', { for: 'field-format' }, 'Format'), select)],
      work: async (data) => {
        const format = data.get('format')
        const parts = []
        await this.#each(async (sessionId) => parts.push((await this.#call('session/export', { sessionId, format })).content), 'exported')
        download(format === 'json' ? `[${parts.join(',\n')}]\n` : parts.join(format === 'jsonl' ? '' : '\n'), `sessions.${FORMATS[format]}`)
      },
    })
  }
}
