"""Every wire transcript, replayed by the browser's own client in the real Chromium."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page

from scripts import browser_types
from tests.clients.browsers import Web, browser, until, web

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)

WIRE = Path(__file__).resolve().parents[1] / "wire"

REPLAY = """async ({text, url, token}) => {
  const {Connection} = await import('/sessiond.js')
  const clients = new Map(), asked = new Map(), names = new Map()

  const client = async (who) => {
    if (clients.has(who)) return clients.get(who)
    const connection = new Connection({url, token, client: who})
    const heard = [], waiting = []
    connection.on('notification', (method, params) => {
      heard.push([method, params])
      waiting.splice(0).forEach((go) => go())
    })
    await connection.connect()
    const next = async (method) => {
      for (;;) {
        while (heard.length > 0) {
          const [name, params] = heard.shift()
          if (name === method) return params
        }
        await new Promise((resolve) => waiting.push(resolve))
      }
    }
    clients.set(who, {connection, next})
    return clients.get(who)
  }

  const filled = (value) => {
    if (typeof value === 'string') return names.has(value) ? names.get(value) : value
    if (Array.isArray(value)) return value.map(filled)
    if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filled(one)]))
    return value
  }

  const match = (expected, found, where) => {
    if (expected === '...') return
    if (typeof expected === 'string' && expected.startsWith('$')) {
      if (!names.has(expected)) names.set(expected, found)
      if (names.get(expected) !== found) throw new Error(`${where}: ${expected} is ${names.get(expected)}, not ${found}`)
    } else if (Array.isArray(expected)) {
      if (!Array.isArray(found) || found.length !== expected.length) throw new Error(`${where}: ${JSON.stringify(found)}`)
      expected.forEach((one, place) => match(one, found[place], `${where}[${place}]`))
    } else if (typeof expected === 'object' && expected !== null) {
      for (const [key, one] of Object.entries(expected)) {
        if (typeof found !== 'object' || found === null || !(key in found)) throw new Error(`${where}.${key} is missing in ${JSON.stringify(found)}`)
        match(one, found[key], `${where}.${key}`)
      }
    } else if (expected !== found) throw new Error(`${where}: ${JSON.stringify(found)} is not ${JSON.stringify(expected)}`)
  }

  const split = (rest) => {
    const place = rest.search(/ |$/)
    return [rest.slice(0, place), JSON.parse(rest.slice(place) || '{}')]
  }

  const line = async (text) => {
    const [who, mark, rest] = [text[0], text[1], text.slice(2).trim()]
    const {connection, next} = await client(who)
    if (mark === '-') {
      clients.delete(who)
      connection.close()
    } else if (mark === '>' && rest.startsWith('!')) {
      const [method, params] = split(rest.slice(1).trim())
      connection.notify(method, filled(params))
    } else if (mark === '>') {
      const [method, params] = split(rest)
      asked.set(who, connection.call(method, filled(params)).then((result) => ({result}), (error) => ({error})))
    } else if (mark === '<') {
      const {result, error} = await asked.get(who)
      if (error) throw error
      match(JSON.parse(rest), result, 'result')
    } else if (mark === '!') {
      const [kind, data] = split(rest)
      const {error} = await asked.get(who)
      if (error?.kind !== kind) throw new Error(`the error is ${error?.kind}`)
      match(data, error.data, 'error.data')
    } else if (mark === '*') {
      const [method, params] = split(rest)
      match(params, await next(method), method)
    } else throw new Error('not a line of a transcript')
  }

  let done = 0
  for (const [number, one] of text.split('\\n').entries()) {
    if (one.trim() === '' || one.startsWith('#')) continue
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error('nothing came')), 20000))
    try {
      await Promise.race([line(one), late])
    } catch (error) {
      throw new Error(`line ${number + 1}: ${one}: ${error.message}`)
    }
    done++
  }
  for (const {connection} of clients.values()) connection.close()
  return done
}"""


@pytest.fixture
def page(web: Web) -> Page:
    opened = web.tab()
    opened.goto(web.url)
    return opened


@pytest.mark.parametrize("path", sorted(WIRE.glob("*.wire")), ids=lambda path: path.stem)
def test_transcript(web: Web, page: Page, path: Path) -> None:
    """The daemon answers the browser's client as the transcript says."""
    done = page.evaluate(REPLAY, {"text": path.read_text(), "url": web.url.replace("http", "ws"), "token": web.token})
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert done == len(lines) > 0


FOLLOW = """async ({url, token}) => {
  const {Connection, applyChange, modelOf} = await import('/sessiond.js')
  const connection = new Connection({url, token, backoffMs: 20, maxBackoffMs: 100})
  await connection.connect()
  const room = connection.follow('s')
  window.shown = []
  window.resets = 0
  room.on('change', (change) => {
    applyChange(window.model, change)
    for (const message of change.messages ?? []) window.shown.push(message.content)
  })
  room.on('reset', (result) => { window.resets++; window.model = modelOf(result) })
  window.model = modelOf(await room.opened)
  window.connection = connection
  window.room = room
}"""


def test_nothing_is_missed_or_shown_twice(web: Web, page: Page) -> None:
    """Over restarts of the daemon while others and the page itself write, each message is shown once, and the model is what
    the daemon has.
    """
    client = web.client()
    client.call("session/new", sessionId="s")
    page.evaluate(FOLLOW, {"url": web.url.replace("http", "ws"), "token": web.token})
    expected = []
    for turn in range(4):
        for number in range(5):
            text = f"other {turn} {number}"
            client.call("session/append", sessionId="s", messages=[{"role": "user", "content": text}])
            expected.append(text)
        page.evaluate(
            "text => room.call('session/append', {messages: [{id: text, role: 'user', content: text}]})", f"own {turn}"
        )
        expected.append(f"own {turn}")
        page.evaluate("values => room.call('state/set', {values})", {"turn": turn})
        until(page, f"model.messages.length === {len(expected)}")
        web.kill()
        until(page, "connection.state === 'waiting'")
        super(Web, web).start()
        client = web.client()
        text = f"while away {turn}"
        client.call("session/append", sessionId="s", messages=[{"role": "user", "content": text}])
        expected.append(text)
        web.listen()
        until(page, f"connection.state === 'open' && model.messages.length === {len(expected)}")
    assert sorted(page.evaluate("shown")) == sorted(expected)
    stored = client.call("session/read", sessionId="s", last=1000)["messages"]
    held = page.evaluate("model.messages.map(({id, seq, content}) => ({id, seq, content}))")
    assert held == [{key: message[key] for key in ("id", "seq", "content")} for message in stored]
    assert page.evaluate("model.state") == {"turn": 3}
    web.errors.clear()  # refused connections, which Chromium reports


def test_an_edit_from_outside_is_read_again(web: Web, page: Page) -> None:
    """When another program has changed the session's file, the page's content is replaced."""
    client = web.client()
    client.call("session/new", sessionId="s")
    client.call("session/append", sessionId="s", messages=[{"role": "user", "content": "old"}])
    page.evaluate(FOLLOW, {"url": web.url.replace("http", "ws"), "token": web.token})
    client.call("session/save", sessionId="s")
    file = web.path / "data" / "sessions" / "s.jsonl"
    file.write_text(file.read_text().replace('"old"', '"edited"'))
    until(page, "resets > 0 && model.messages[0].content === 'edited'")


def test_a_request_is_cancelled(web: Web, page: Page) -> None:
    """An aborted signal rejects at once and stops the daemon's work."""
    client = web.client()
    client.call("session/new", sessionId="s")
    name = page.evaluate(
        """async ({url, token}) => {
          const {Connection} = await import('/sessiond.js')
          const connection = new Connection({url, token})
          await connection.connect()
          const abort = new AbortController()
          const search = connection.call('session/search', {query: '(a+)+$', mode: 'regex'}, {signal: abort.signal})
          abort.abort()
          const outcome = await search.catch((error) => error.name)
          await connection.call('daemon/hello')
          connection.close()
          return outcome
        }""",
        {"url": web.url.replace("http", "ws"), "token": web.token},
    )
    assert name == "AbortError"


SPOILT = """async ({url, token, spoil}) => {
  const {Connection} = await import('/sessiond.js')
  let first = true
  const socket = (to) => {
    const real = new WebSocket(to)
    const send = real.send.bind(real)
    real.send = (text) => {
      const {id, method} = JSON.parse(text)
      if (!first || (spoil.at ?? 'initialize') !== method) return send(text)
      first = false
      setTimeout(() => real.onmessage({data: spoil.data ?? JSON.stringify({jsonrpc: '2.0', id, error: spoil.error})}))
    }
    return real
  }
  const connection = new Connection({url, token, socket, backoffMs: 20, maxBackoffMs: 50})
  const away = new Promise((resolve) => connection.on('state', ({state, error}) => state === 'waiting' && resolve(error.kind)))
  await connection.connect()
  const outcome = spoil.at ? await connection.call(spoil.at).catch((error) => error.kind) : null
  const told = await away
  await new Promise((resolve) => connection.state === 'open' ? resolve() : connection.on('state', ({state}) => state === 'open' && resolve()))
  const {version} = await connection.call('daemon/hello')
  connection.close()
  return [told, outcome, typeof version]
}"""


@pytest.mark.parametrize("data", ["no JSON", "null", "[1]"])
def test_an_answer_that_is_no_message(web: Web, page: Page, data: str) -> None:
    """It is said, what was asked is not waited for any longer, and the connection comes back."""
    spoil = {"at": "daemon/status", "data": data}
    told = page.evaluate(SPOILT, {"url": web.url.replace("http", "ws"), "token": web.token, "spoil": spoil})
    assert told == ["badMessage", "disconnected", "string"]


def test_a_daemon_that_cannot_let_us_in_yet(web: Web, page: Page) -> None:
    """An `initialize` that fails for a moment is said and tried again; the client does not stay midway."""
    spoil = {"error": {"code": -31007, "message": "not now", "data": {"kind": "unavailable"}}}
    told = page.evaluate(SPOILT, {"url": web.url.replace("http", "ws"), "token": web.token, "spoil": spoil})
    assert told == ["unavailable", None, "string"]


def test_offsets_count_code_points(page: Page) -> None:
    """Streamed text is put in by its offset in code points; what is there is not added again, and a hole is not filled with
    something else.
    """
    result = page.evaluate(
        """async () => {
          const {extend, codePoints} = await import('/sessiond.js')
          const message = {content: '🦊a'}
          const told = [extend(message, {text: 'b', offset: 2}), extend(message, {text: 'b', offset: 2}), extend(message, {text: '🦊abc🐌', offset: 0}),
            extend(message, {text: 'x', offset: 9}), extend(message, {text: '!'})]
          return [message.content, told, codePoints('🦊a\\ud800'), codePoints('')]
        }"""
    )
    assert result == ["🦊abc🐌!", [True, False, True, False, True], 3, 0]


def test_the_types_are_those_of_the_protocol() -> None:
    """`protocol.d.ts` is what the generator makes of the OpenRPC document, with every request in it."""
    written = browser_types.TARGET.read_text()
    assert written == browser_types.text(), "run: python -m scripts.browser_types"
    for one in json.loads(browser_types.SOURCE.read_text())["methods"]:
        assert f"'{one['name']}': {{ params:" in written
