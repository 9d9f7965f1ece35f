// Which tokens were used: a chart over time, and tables of the models, tools, projects and sessions that used most.

import { h, oneLine, svg } from '../dom.js'
import { recall, remember } from '../settings.js'

const PERIODS = [['30', '30 days', 30], ['90', '90 days', 90], ['365', 'A year', 365], ['all', 'All time', null]]
const MOST_DAYS = 120 // longer periods are shown by month
const MOST_MONTHS = 1000 // a clock may have been wrong
const ROWS = 12
const REFRESH_MS = 30_000
const DAY_MS = 86_400_000
const KINDS = [['input', 'Input'], ['cacheWrite', 'Cache write'], ['cacheRead', 'Cache read'], ['output', 'Output']]
const TABLES = [['model', 'Models', 'Model'], ['tool', 'Tools', 'Tool'], ['project', 'Projects', 'Folder'], ['session', 'Sessions', 'Session']]
const WIDTH = 720
const HEIGHT = 180
const WITHOUT_READS = 'usage-without-cache-reads'
const SHORT = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
const WHOLE = new Intl.NumberFormat()
const DOLLARS = new Intl.NumberFormat(undefined, { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' })
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone

export class UsageView {
  #app
  #period = null // one of PERIODS, or null until it is known which is the newest with any use
  #counted = null // the kinds of KINDS that are counted
  #generation = 0
  #timer = null

  constructor(app) {
    this.#app = app
    this.periods = h('nav', { class: 'tools', 'aria-label': 'Period' })
    this.sum = h('p', { class: 'facts', role: 'status' })
    this.reads = h('input', { type: 'checkbox', checked: recall(WITHOUT_READS) === null })
    this.reads.addEventListener('change', () => {
      remember(WITHOUT_READS, this.reads.checked ? null : '1')
      this.last = null
      this.load()
    })
    this.charts = h('div', { class: 'charts' })
    this.element = h('section', { class: 'usage scroll', tabindex: 0, 'aria-labelledby': 'usage-title' },
      h('header', { class: 'head' },
        h('a', { class: 'back', href: '#/' }, h('span', { 'aria-hidden': 'true' }, '‹ '), 'All sessions'),
        h('h2', { id: 'usage-title' }, 'Usage'), this.periods,
        h('label', { class: 'choice' }, this.reads, ' Count cache reads'), this.sum),
      this.charts)
    this.#timer = setInterval(this.#refresh, REFRESH_MS)
    document.addEventListener('visibilitychange', this.#refresh)
  }

  #refresh = () => document.hidden || this.load()

  /** Show one of PERIODS. Another name means the shortest in which anything was used. */
  show(period) {
    this.#period = PERIODS.some(([name]) => name === period) ? period : null
    this.#showPeriods()
    return this.load()
  }

  #showPeriods() {
    this.periods.replaceChildren(...PERIODS.map(([name, label]) =>
      h('a', { href: `#/usage/${name}`, 'aria-current': name === this.#period ? 'page' : null }, label)))
  }

  close() {
    clearInterval(this.#timer)
    document.removeEventListener('visibilitychange', this.#refresh)
    this.#generation++
  }

  /** Ask again, and draw what is new. */
  async load() {
    if (this.#app.connection?.state !== 'open') return
    const generation = ++this.#generation
    try {
      const period = this.#period ?? await this.#newest()
      if (generation !== this.#generation) return
      if (this.#period !== period) {
        this.#period = period
        this.#showPeriods()
      }
      const days = daysOf(period)
      const byDay = days !== null && days <= MOST_DAYS
      const ask = (by, limit) => this.#ask(days, by, limit)
      const [time, ...tables] = await Promise.all([ask(byDay ? 'day' : 'month', 1000), ...TABLES.map(([by]) => ask(by, ROWS))])
      if (generation !== this.#generation) return
      const now = JSON.stringify([period, time, tables])
      if (now === this.last) return
      this.last = now
      this.#counted = KINDS.filter(([kind]) => kind !== 'cacheRead' || this.reads.checked)
      this.#draw(byDay ? withEmptyDays(time.rows, days) : withEmptyMonths(time.rows, days), time, tables)
    } catch (error) {
      if (error.kind !== 'disconnected') this.#app.fail(error)
    }
  }

  #ask(days, by, limit) {
    const since = days === null ? {} : { since: midnight(days - 1).toISOString() }
    return this.#app.connection.call('session/usage', { by, limit, timeZone: ZONE, ...since })
  }

  /** The shortest of PERIODS in which anything was used, or the longest. */
  async #newest() {
    for (const [name, , days] of PERIODS.slice(0, -1)) {
      const { total } = await this.#ask(days, 'month', 1)
      if (total.requests > 0) return name
    }
    return PERIODS.at(-1)[0]
  }

  #draw(rows, { total, sessions, incomplete }, tables) {
    if (total.requests === 0) {
      this.sum.textContent = incomplete ? 'The index is still being built.' : 'No message of this period reports tokens.'
      this.charts.replaceChildren()
      return
    }
    const left = leftOut(total)
    const money = left === null ? cost(total) : `${cost(total)} (${left})`
    const parts = [count(this.#tokens(total), 'token'), count(total.requests, 'request'), count(sessions, 'session'), money]
    if (incomplete) parts.push('the index is still being built')
    this.sum.textContent = parts.filter(Boolean).join(' · ')
    this.charts.replaceChildren(timeChart(rows, this.#counted), ...TABLES.map(([by, title, heading], nth) => this.#table(by, title, heading, tables[nth])))
  }

  #table(by, title, heading, { rows, omitted }) {
    const most = Math.max(1, ...rows.map((row) => this.#tokens(row.total)))
    const lines = rows.map((row) => h('tr', {},
      h('th', { scope: 'row' }, this.#name(by, row)), h('td', { class: 'bar' }, bar(this.#tokens(row.total) / most)),
      h('td', { title: WHOLE.format(this.#tokens(row.total)) }, SHORT.format(this.#tokens(row.total))), costCell(row.total)))
    const rest = omitted > 0 && h('p', { class: 'found' }, `${WHOLE.format(omitted)} more: sessiond stats --by ${by} --all`)
    return h('div', { class: 'chart' }, h('table', {}, h('caption', {}, title),
      h('colgroup', {}, ['name', 'share', 'tokens', 'cost'].map((name) => h('col', { class: name }))),
      h('thead', { class: 'hidden' }, h('tr', {}, [heading, 'Share', 'Tokens', 'Cost'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', {}, lines)), rest)
  }

  #tokens(total) {
    return tokens(total, this.#counted)
  }

  #name(by, { key, name }) {
    const text = oneLine(name || key || 'unknown', 200)
    return by === 'session' && key !== null ? h('a', { href: this.#app.linkTo(key) }, text) : h('span', { title: key ?? '' }, text)
  }
}

/** A column for each day or month, in layers by kind, and the same as a table. `kinds`: those of KINDS that are counted. */
function timeChart(rows, kinds) {
  const most = Math.max(1, ...rows.map((row) => tokens(row.total, kinds)))
  const step = WIDTH / rows.length
  const columns = rows.map((row, nth) => {
    let top = HEIGHT
    const layers = kinds.map(([kind]) => {
      const height = (row.total[kind] / most) * HEIGHT
      top -= height
      return svg('rect', { class: layerOf(kind), x: nth * step + step * 0.1, y: top, width: step * 0.8, height })
    })
    return svg('g', {}, svg('title', {}, `${row.key}: ${WHOLE.format(tokens(row.total, kinds))}`), ...layers)
  })
  const label = `Tokens from ${rows[0].key} to ${rows.at(-1).key}, at most ${WHOLE.format(most)}`
  const legend = h('p', { class: 'legend' }, kinds.map(([kind, name]) => h('span', { class: layerOf(kind) }, name)))
  const heads = ['When', ...kinds.map(([, name]) => name), 'Cost']
  const lines = rows.filter((row) => row.total.requests > 0).map((row) => h('tr', {}, h('th', { scope: 'row' }, row.key),
    kinds.map(([kind]) => h('td', {}, WHOLE.format(row.total[kind]))), costCell(row.total)))
  return h('div', { class: 'chart over-time' },
    svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, ...columns),
    h('p', { class: 'axis' }, h('span', {}, rows[0].key), h('span', {}, `highest: ${SHORT.format(most)}`), h('span', {}, rows.at(-1).key)), legend,
    h('details', {}, h('summary', {}, 'As a table'), h('div', { class: 'wide', tabindex: 0 }, h('table', {}, h('caption', { class: 'hidden' }, label),
      h('thead', {}, h('tr', {}, heads.map((name) => h('th', { scope: 'col' }, name)))), h('tbody', {}, lines)))))
}

/** The class that has the kind's colour: always the same one, whichever kinds are counted. */
function layerOf(kind) {
  return `k${KINDS.findIndex(([name]) => name === kind) + 1}`
}

function bar(share) {
  return svg('svg', { viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { class: 'k2', x: 0, y: 0, width: Math.max(share * 100, 0.5), height: 10 }))
}

function daysOf(period) {
  return PERIODS.find(([name]) => name === period)[2]
}

/** One row for each of the last days. */
function withEmptyDays(rows, days) {
  return withEmpty(rows, Array.from({ length: days }, (_, nth) => isoDay(midnight(days - 1 - nth))))
}

/** One row for each month of the last days, or from the first month that has one. */
function withEmptyMonths(rows, days) {
  const keys = []
  const last = isoMonth(new Date())
  const first = days === null ? rows[0]?.key ?? last : isoMonth(midnight(days - 1))
  let [year, month] = first.split('-').map(Number)
  for (let key = first; key <= last && keys.length < MOST_MONTHS; key = isoMonth(new Date(year, month - 1, 1))) {
    keys.push(key)
    month++
  }
  return withEmpty(rows, keys)
}

/** A row for each of the keys, which are in order, and those for later ones: a clock may be ahead. */
function withEmpty(rows, keys) {
  const known = new Map(rows.map((row) => [row.key, row]))
  const none = { requests: 0, input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0, cost: 0, priced: 0 }
  const later = rows.filter((row) => row.key > keys.at(-1))
  return [...keys.map((key) => known.get(key) ?? { key, total: none }), ...later]
}

/** Midnight here, so many days ago. Days have 23 to 25 hours: from noon a day back is always the day before. */
function midnight(ago) {
  const noon = new Date()
  noon.setHours(12, 0, 0, 0)
  const found = new Date(noon.valueOf() - ago * DAY_MS)
  found.setHours(0, 0, 0, 0)
  return found
}

function isoDay(date) {
  return `${isoMonth(date)}-${String(date.getDate()).padStart(2, '0')}`
}

function isoMonth(date) {
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, '0')}`
}

function count(number, noun) {
  return `${WHOLE.format(number)} ${noun}${number === 1 ? '' : 's'}`
}

/** Those of the given KINDS. */
function tokens(total, kinds) {
  return kinds.reduce((sum, [kind]) => sum + total[kind], 0)
}

/** What a cost is without; null if it is of all requests, or of none. */
function leftOut(total) {
  const missing = total.priced > 0 ? total.requests - total.priced : 0
  return missing > 0 ? `without ${count(missing, 'request')} of unknown cost` : null
}

/** What the plus means is said where somebody points at it, and for the whole period above the charts. */
function costCell(total) {
  return h('td', { title: leftOut(total) }, cost(total) ?? '')
}

/** In dollars, with a plus if some of the requests have no cost; null if none has. */
function cost(total) {
  if (total.priced === 0) return null
  return DOLLARS.format(total.cost) + (total.priced < total.requests ? '+' : '')
}
