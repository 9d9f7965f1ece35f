import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Change, Message, Opened, SessionInfo } from '../../src/core/protocol';
import { Transcript } from '../../src/core/transcript';

function info(count: number, seq: number): SessionInfo {
    return {
        sessionId: 's', name: null, createdAt: '', updatedAt: '', model: null, messageCount: count, seq, path: '', cwd: null,
        tags: [], archived: false, summary: null, parent: null,
    };
}

function message(id: string, seq: number, content: string, more: Partial<Message> = {}): Message {
    return { id, seq, role: 'user', content, timestamp: '', ...more };
}

function opened(session: SessionInfo, messages: Message[], hasMore = false): Transcript {
    const transcript = new Transcript();
    const answer: Opened = { session, messages, state: {}, hasMore, warnings: [] };
    transcript.load(answer);
    return transcript;
}

const begun = (): Transcript => opened(info(1, 1), [message('m1', 1, 'one')]);

const CHANGES: Change[] = [
    { kind: 'appended', seq: 2, messages: [message('r', 2, '日', { role: 'assistant', status: 'streaming' })] },
    { kind: 'extended', seq: 3, messageId: 'r', offset: 1, text: '本語' },
    { kind: 'appended', seq: 5, messages: [message('m4', 4, 'four'), message('m5', 5, 'five')] },
    { kind: 'extended', seq: 6, messageId: 'r', offset: 3, text: '😀!' },
    { kind: 'extended', seq: 7, messageId: 'r', offset: 5, text: '.' },
    { kind: 'finished', seq: 8, messageId: 'r', status: 'done' },
];

const contents = (transcript: Transcript): unknown[] => transcript.messages.map(({ content }) => content);

test('changes that come twice are shown once', () => {
    for (let again = 1; again <= CHANGES.length; again += 1) {
        const transcript = begun();
        for (const change of [...CHANGES.slice(0, again), ...CHANGES]) {
            assert.notEqual(transcript.apply(structuredClone(change)), 'read');
        }
        assert.deepEqual(contents(transcript), ['one', '日本語😀!.', 'four', 'five']);
        assert.deepEqual([transcript.count, transcript.seq, transcript.get('r')!.status], [4, 8, 'done']);
    }
});

test('our own answer may come before or after changes of others', () => {
    for (let place = 0; place <= CHANGES.length; place += 1) {
        const transcript = begun();
        CHANGES.slice(0, place).forEach((change) => transcript.apply(structuredClone(change)));
        transcript.put(message('own', 9, 'own'));
        CHANGES.slice(place).forEach((change) => transcript.apply(structuredClone(change)));
        assert.deepEqual(contents(transcript), ['one', '日本語😀!.', 'four', 'five', 'own']);
        assert.equal(transcript.count, 5);
        // What is asked for after a lost connection is what others did.
        assert.equal(transcript.seq, 8);
    }
});

test('a gap in a streamed text asks for all again', () => {
    const transcript = begun();
    transcript.apply(structuredClone(CHANGES[0]));
    assert.equal(transcript.apply(structuredClone(CHANGES[3])), 'read');
});

test('what was cleared does not come back with a late answer', () => {
    const transcript = begun();
    transcript.apply({ kind: 'cleared', seq: 9 });
    assert.equal(transcript.put(message('late', 8, 'x')), 'none');
    transcript.put(message('new', 10, 'y'));
    assert.deepEqual([contents(transcript), transcript.count], [['y'], 1]);
});

test('a truncation takes away what comes after it, once', () => {
    const transcript = opened(info(3, 3), [message('a', 1, '1'), message('b', 2, '2'), message('c', 3, '3')]);
    transcript.apply({ kind: 'truncated', seq: 4, afterSeq: 1 });
    transcript.apply({ kind: 'appended', seq: 5, messages: [message('d', 5, '5')] });
    transcript.apply({ kind: 'truncated', seq: 4, afterSeq: 1 });
    assert.deepEqual([contents(transcript), transcript.count], [['1', '5'], 2]);
});

test('a truncation before what is loaded asks for all again', () => {
    const transcript = opened(info(100, 100), [message('m100', 100, 'x')], true);
    assert.equal(transcript.apply({ kind: 'truncated', seq: 101, afterSeq: 50 }), 'read');
});

test('an older page that overlaps adds each message once', () => {
    const transcript = opened(info(3, 3), [message('m3', 3, '3')], true);
    const messages = [1, 2, 3].map((n) => message(`m${n}`, n, String(n)));
    assert.equal(transcript.prepend({ messages, hasMore: false, seq: 3 }), 2);
    assert.deepEqual([contents(transcript), transcript.count, transcript.more], [['1', '2', '3'], 3, false]);
});

test('a list of blocks that somebody extends asks for all again', () => {
    const transcript = opened(info(1, 1), [{ ...message('m', 1, ''), content: [{ type: 'text', text: 'a' }] }]);
    assert.equal(transcript.apply({ kind: 'extended', seq: 2, messageId: 'm', offset: 1, text: 'b' }), 'read');
});
