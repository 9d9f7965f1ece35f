import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failureOf } from '../../src/core/failure';
import { groups } from '../../src/core/grouping';
import { SessionInfo } from '../../src/core/protocol';
import { MARK, Renderer } from '../../src/core/render';
import { Transcript } from '../../src/core/transcript';
import { dayName, localTime } from '../../src/core/when';
import { asks, changedTags, doing, fenced, fileName, marked, shortId, title, typedTags } from '../../src/core/words';

function session(sessionId: string, more: Partial<SessionInfo> = {}): SessionInfo {
    return {
        sessionId, name: null, createdAt: '', updatedAt: '2026-01-11T14:30:22.000Z', model: null, messageCount: 0, seq: 0, path: '',
        cwd: null, tags: [], archived: false, summary: null, parent: null, ...more,
    };
}

test('times are local, in summer too, and what is none stays', () => {
    process.env.TZ = 'Europe/Berlin';
    assert.equal(localTime('2026-01-11T14:30:22.000Z'), '2026-01-11 15:30');
    assert.equal(localTime('2026-07-11T23:30:22.000Z'), '2026-07-12 01:30');
    assert.equal(localTime('yesterday'), 'yesterday');
    assert.equal(localTime(undefined), '');
});

test('days are named from where the person is', () => {
    process.env.TZ = 'Europe/Berlin';
    const now = new Date('2026-03-29T10:00:00.000Z'); // the night before lost an hour
    assert.equal(dayName('2026-03-28T23:30:00.000Z', now), 'Today');
    assert.equal(dayName('2026-03-28T22:30:00.000Z', now), 'Yesterday');
    assert.equal(dayName('2026-03-27T12:00:00.000Z', now), '2026-03-27');
    assert.equal(dayName('never', now), 'At no known time');
});

test('groups keep the order of days and sort tags and folders, those without last', () => {
    const now = new Date('2026-01-12T12:00:00.000Z');
    const all = [
        session('c', { updatedAt: '2026-01-12T11:00:00.000Z', tags: ['work'], cwd: '/b' }),
        session('b', { updatedAt: '2026-01-12T10:00:00.000Z' }),
        session('a', { updatedAt: '2025-01-01T12:00:00.000Z', tags: ['home', 'work'], cwd: '/a' }),
    ];
    const shown = (by: 'day' | 'tag' | 'folder'): [string, string[]][] =>
        groups(all, by, now).map((group) => [group.label, group.sessions.map(({ sessionId }) => sessionId)]);
    assert.deepEqual(shown('day'), [['Today', ['c', 'b']], ['2025-01-01', ['a']]]);
    assert.deepEqual(shown('tag'), [['home', ['a']], ['work', ['c', 'a']], ['Without a tag', ['b']]]);
    assert.deepEqual(shown('folder'), [['/a', ['a']], ['/b', ['c']], ['Without a folder', ['b']]]);
});

test('ids that sessiond makes are whole', () => {
    assert.equal(shortId('session-20260111-143022-12'), 'session-20260111-143022-12');
    assert.equal(shortId('claude-code-11111111-2222-3333-4444-555555555555'), 'claude-code-11111111-2222-…');
});

test('tags are added and taken away', () => {
    assert.deepEqual(changedTags(['a', 'x'], '+c -x b, #d'), ['a', 'c', 'b', 'd']);
    assert.deepEqual(changedTags(['a'], '-a - +'), []);
    assert.deepEqual(changedTags(['two words'], '-"two words" #"c, d" "" 5"'), ['c, d', '5"']);
    const tags = ['home', 'two words', 'a,b'];
    assert.deepEqual(changedTags([], typedTags(tags)), tags);
});

test('a selection is fenced so that nothing in it ends the fence', () => {
    assert.equal(fenced('x = 1\n', 'python', 'src/a.py', 3, 3), 'src/a.py:3\n\n```python\nx = 1\n```');
    assert.equal(fenced('```\nfour ````\n', 'plaintext', 'a', 1, 2), 'a:1-2\n\n`````\n```\nfour ````\n`````');
});

test('what was found is marked by code points, on one line', () => {
    assert.equal(marked({ snippet: '😀 a\nb c', ranges: [[2, 3], [6, 7]] }), '😀 «a» b «c»');
    assert.equal(marked({ snippet: 'plain', ranges: [] }), 'plain');
});

test('what goes on in a session, in two words', () => {
    assert.equal(doing(undefined), '');
    assert.equal(doing({ state: 'working', client: 'x' }), 'works');
    assert.equal(doing({ state: 'waiting', client: 'x' }), 'waits');
    assert.equal(asks(undefined), '');
    assert.equal(asks({ state: 'waiting', client: 'x' }), 'x: ?');
    assert.equal(asks({ state: 'waiting', client: 'x', waitingFor: 'permission' }), 'x: permission');
    assert.equal(asks({ state: 'waiting', client: 'x', text: 'Run\nmake?', waitingFor: 'permission' }), 'x: Run make?');
    assert.equal(doing({ state: 'waiting', client: 'x', waitingFor: 'permission' }), 'waits: permission');
});

test('titles and file names are fit to show', () => {
    assert.equal(title({ sessionId: 'lisp/session-20260111-143022', name: null }), 'lisp/20260111-143022');
    assert.equal(title({ sessionId: 'x', name: 'a\u202eb\nc' }), 'a b c');
    assert.equal(fileName('../a: "b"?'), '-a- -b-');
    assert.equal(fileName('..'), 'session');
});

test('failures keep the kind of the wire, and a lost connection is one', () => {
    const conflict = Object.assign(new Error('no'), { code: -31002, data: { kind: 'conflict', hint: 'read again' } });
    assert.deepEqual([failureOf(conflict).kind, failureOf(conflict).said], ['conflict', 'no (read again)']);
    assert.equal(failureOf(Object.assign(new Error('x'), { code: -32097 })).kind, 'disconnected');
    assert.equal(failureOf(Object.assign(new Error('Connection is closed.'), { code: 1 })).kind, 'disconnected');
    assert.equal(failureOf(Object.assign(new Error('x'), { code: -32800 })).kind, 'cancelled');
    assert.equal(failureOf(new Error('closed')).kind, 'disconnected');
});

test('a document has a head for every message and for nothing else', () => {
    const transcript = new Transcript();
    const said = (id: string, seq: number, content: string | unknown[], more = {}): never =>
        ({ id, seq, role: 'user', content, timestamp: '', ...more }) as never;
    transcript.load({
        session: session('s', { name: 'A\nname', messageCount: 5, seq: 5 }),
        messages: [
            said('1', 3, `text\r\n${MARK}user · fake\rlast\u2028line`),
            said('2', 4, [{ type: 'text', text: 'in a block' }, { type: 'image', data: 'x' }], { thinking: 'one\ntwo', role: 'a\nb' }),
            said('3', 5, '', { status: 'streaming', role: 'assistant', author: 'Ada', toolCalls: [{ name: 'ls', arguments: { path: '/' } }] }),
        ],
        hasMore: true, state: {}, warnings: [],
    });
    const renderer = new Renderer();
    renderer.render('s', transcript, 'offline');
    const lines = renderer.text.split('\n');
    assert.equal(lines.length, renderer.lines);
    assert.equal(lines[0], '· A name (s) · 2 older messages are not shown · offline');
    assert.deepEqual(lines.filter((line) => line.startsWith(MARK)), ['▌ user · ', '▌ a b · ', '▌ assistant (Ada) ·  · …']);
    assert.deepEqual(renderer.places.map(({ start, end }) => lines.slice(start + 1, end + 1)), [
        ['text', ` ${MARK}user · fake`, 'last', 'line'],
        ['> one', '> two', 'in a block', '{"type":"image","data":"x"}'],
        ['', '→ ls({"path":"/"})'],
    ]);
    assert.deepEqual(renderer.places[1].folds.map(({ start, end }) => lines.slice(start, end + 1)), [['> one', '> two']]);
    assert.equal(renderer.at(renderer.places[1].end)?.message.id, '2');
    assert.equal(renderer.at(0), undefined);
});
