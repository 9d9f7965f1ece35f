// Which tokens were used: a chart over time, and tables of the models, tools, projects and sessions that used most.

import { h, oneLine, svg } from '../dom.js'

const PERIODS = [['30', '30 days', 30], ['90', '90 days', 90], ['365', 'A year', 365], ['all', 'All time', null]]
const MOST_DAYS = 120 // longer periods are shown by month
const ROWS = 12
const REFRESH_MS = 30_000
const DAY_MS = 86_400_000
const KINDS = [['input', 'Input'], ['cacheWrite', 'Cache write'], ['cacheRead', 'Cache read'], ['output', 'Output']]
const TABLES = [['model', 'Models', 'Model'], ['tool', 'Tools', 'Tool'], ['project', 'Projects', 'Folder'], ['session', 'Sessions', 'Session']]
const WIDTH = 720
const HEIGHT = 180
const SHORT = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
const WHOLE = new Intl.NumberFormat()
const DOLLARS = new Intl.NumberFormat(undefined, { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' })
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone

export class UsageView {
  #app
  #period = '30'
  #generation = 0
  #timer = null

  constructor(app) {
    this.#app = app
    this.periods = h('nav', { class: 'tools', 'aria-label': 'Period' })
    this.sum = h('p', { class: 'facts', role: 'status' })
    this.charts = h('div', { class: 'charts' })
    this.element = h('section', { class: 'usage scroll', tabindex: 0, 'aria-labelledby': 'usage-title' },
      h('header', { class: 'head' },
        h('a', { class: 'back', href: '#/' }, h('span', { 'aria-hidden': 'true' }, '‹ '), 'All sessions'),
        h('h2', { id: 'usage-title' }, 'Usage'), this.periods, this.sum),
      this.charts)
    this.#timer = setInterval(this.#refresh, REFRESH_MS)
    document.addEventListener('visibilitychange', this.#refresh)
  }

  #refresh = () => document.hidden || this.load()

  /** Show one of PERIODS; another name means the first one. */
  show(period) {
    this.#period = PERIODS.some(([name]) => name === period) ? period : PERIODS[0][0]
    this.periods.replaceChildren(...PERIODS.map(([name, label]) =>
      h('a', { href: `#/usage/${name}`, 'aria-current': name === this.#period ? 'page' : null }, label)))
    return this.load()
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
    const days = PERIODS.find(([name]) => name === this.#period)[2]
    const since = days === null ? {} : { since: midnight(days - 1).toISOString() }
    const byDay = days !== null && days <= MOST_DAYS
    const ask = (by, limit) => this.#app.connection.call('session/usage', { by, limit, timeZone: ZONE, ...since })
    try {
      const [time, ...tables] = await Promise.all([ask(byDay ? 'day' : 'month', 1000), ...TABLES.map(([by]) => ask(by, ROWS))])
      if (generation !== this.#generation) return
      const now = JSON.stringify([this.#period, time, tables])
      if (now === this.last) return
      this.last = now
      this.#draw(byDay ? withEmptyDays(time.rows, days) : time.rows, time, tables)
    } catch (error) {
      if (error.kind !== 'disconnected') this.#app.fail(error)
    }
  }

  #draw(rows, { total, sessions, incomplete }, tables) {
    if (total.requests === 0) {
      this.sum.textContent = incomplete ? 'The index is still being built.' : 'No message of this period reports tokens.'
      this.charts.replaceChildren()
      return
    }
    const parts = [count(tokens(total), 'token'), count(total.requests, 'request'), count(sessions, 'session'), cost(total)]
    if (incomplete) parts.push('the index is still being built')
    this.sum.textContent = parts.filter(Boolean).join(' · ')
    this.charts.replaceChildren(timeChart(rows), ...TABLES.map(([by, title, heading], nth) => this.#table(by, title, heading, tables[nth])))
  }

  #table(by, title, heading, { rows, omitted }) {
    const most = Math.max(...rows.map((row) => tokens(row.total)))
    const lines = rows.map((row) => h('tr', {},
      h('th', { scope: 'row' }, this.#name(by, row)), h('td', { class: 'bar' }, bar(tokens(row.total) / most)),
      h('td', { title: WHOLE.format(tokens(row.total)) }, SHORT.format(tokens(row.total))), h('td', {}, cost(row.total) ?? '')))
    const rest = omitted > 0 && h('p', { class: 'found' }, `${WHOLE.format(omitted)} more: sessiond stats --by ${by} --all`)
    return h('div', { class: 'chart' }, h('table', {}, h('caption', {}, title),
      h('colgroup', {}, ['name', 'share', 'tokens', 'cost'].map((name) => h('col', { class: name }))),
      h('thead', { class: 'hidden' }, h('tr', {}, [heading, 'Share', 'Tokens', 'Cost'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', {}, lines)), rest)
  }

  #name(by, { key, name }) {
    const text = oneLine(name || (by === 'project' ? ending(key ?? '') : key) || 'unknown', 80)
    return by === 'session' && key !== null ? h('a', { href: this.#app.linkTo(key) }, text) : h('span', { title: key ?? '' }, text)
  }
}

/** A column for each day or month, in layers by kind, and the same as a table. */
function timeChart(rows) {
  const most = Math.max(1, ...rows.map((row) => tokens(row.total)))
  const step = WIDTH / rows.length
  const columns = rows.map((row, nth) => {
    let top = HEIGHT
    const layers = KINDS.map(([kind], layer) => {
      const height = (row.total[kind] / most) * HEIGHT
      top -= height
      return svg('rect', { class: `k${layer + 1}`, x: nth * step + step * 0.1, y: top, width: step * 0.8, height })
    })
    return svg('g', {}, svg('title', {}, `${row.key}: ${WHOLE.format(tokens(row.total))}`), ...layers)
  })
  const label = `Tokens from ${rows[0].key} to ${rows.at(-1).key}, at most ${WHOLE.format(most)}`
  const legend = h('p', { class: 'legend' }, KINDS.map(([, name], layer) => h('span', { class: `k${layer + 1}` }, name)))
  const heads = ['When', ...KINDS.map(([, name]) => name), 'Cost']
  const lines = rows.filter((row) => row.total.requests > 0).map((row) => h('tr', {}, h('th', { scope: 'row' }, row.key),
    KINDS.map(([kind]) => h('td', {}, WHOLE.format(row.total[kind]))), h('td', {}, cost(row.total) ?? '')))
  return h('div', { class: 'chart over-time' },
    svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, ...columns),
    h('p', { class: 'axis' }, h('span', {}, rows[0].key), h('span', {}, `highest: ${SHORT.format(most)}`), h('span', {}, rows.at(-1).key)), legend,
    h('details', {}, h('summary', {}, 'As a table'), h('div', { class: 'wide', tabindex: 0 }, h('table', {}, h('caption', { class: 'hidden' }, label),
      h('thead', {}, h('tr', {}, heads.map((name) => h('th', { scope: 'col' }, name)))), h('tbody', {}, lines)))))
}

function bar(share) {
  return svg('svg', { viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { class: 'k2', x: 0, y: 0, width: Math.max(share * 100, 0.5), height: 10 }))
}

/** One row for each of the last days: those without any use have empty ones. */
function withEmptyDays(rows, days) {
  const known = new Map(rows.map((row) => [row.key, row]))
  const none = { requests: 0, input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0, cost: 0, priced: 0 }
  const keys = Array.from({ length: days }, (_, nth) => isoDay(midnight(days - 1 - nth)))
  const later = rows.filter((row) => row.key > keys.at(-1)) // a clock that is ahead
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
  const two = (number) => String(number).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

function count(number, noun) {
  return `${WHOLE.format(number)} ${noun}${number === 1 ? '' : 's'}`
}

/** A folder's end, which tells it from others. */
function ending(path) {
  const parts = path.split('/')
  return parts.length > 4 ? `…/${parts.slice(-2).join('/')}` : path
}

function tokens(total) {
  return total.input + total.cacheRead + total.cacheWrite + total.output
}

/** In dollars, with a plus if some of the requests have no cost; null if none has. */
function cost(total) {
  if (total.priced === 0) return null
  return DOLLARS.format(total.cost) + (total.priced < total.requests ? '+' : '')
}
