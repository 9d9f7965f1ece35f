// What goes wrong is told in VS Code's own way, and what was typed is still there. $SESSIOND_FAKE runs tests/clients/fake_daemon.py.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { begin, draft, hears, hooks, open, other, parts, run, said, say, shows, status, type, useRelay, wait, willType } from './help';

const OPENED = {
    result: {
        session: { sessionId: 'x', name: 'x', messageCount: 0, seq: 0, tags: [], createdAt: '', updatedAt: '' },
        messages: [], notes: [], state: {}, hasMore: false, warnings: [],
    },
};
const LIST = { result: { sessions: [], nextCursor: null } };

let logs = 0;

/** Makes the extension talk to a fake daemon; where it logs what it is told. */
async function fake(answers: object): Promise<string> {
    logs += 1;
    const log = join(tmpdir(), `sessiond-fake-${process.pid}-${logs}`);
    const all = JSON.stringify({ 'session/open': OPENED, 'session/list': LIST, 'daemon/status': { result: { stores: [] } }, ...answers });
    await useRelay([...process.env.SESSIOND_FAKE!.split(' '), all, log]);
    return log;
}

function failing(kind: string, message: string): object {
    return { error: { code: -31005, message, data: { kind, hint: 'look at the disk' } } };
}

const drafted = (id: string, text: string): Promise<unknown> =>
    wait(
        () => `the draft is ${JSON.stringify(text)}, not ${JSON.stringify(draft(id)?.getText())}`,
        () => draft(id)?.getText() === text,
    );

async function join_(id: string): Promise<void> {
    const { chats } = await parts();
    await chats.show({ sessionId: id, name: null });
}

describe('trouble', () => {
    hooks();
    afterEach(async () => {
        const { rooms } = await parts();
        await wait('nothing is open', () => rooms.size === 0);
        await useRelay();
    });

    it('no sessiond on the path', async () => {
        await useRelay(['no-such-sessiond']);
        willType('new one');
        await run('new');
        await hears("No new session: program 'no-such-sessiond' not found (install sessiond, or set sessiond.path)");
        await join_('x');
        await status('x:0 offline');
        await say('x', 'これは残る');
        await hears("Not sent: program 'no-such-sessiond' not found");
        await drafted('x', 'これは残る');
        const { tree } = await parts();
        assert.deepEqual(await tree.getChildren(), []);
        assert.match(tree.view.message!, /program 'no-such-sessiond' not found/);
    });

    it('no daemon can be started', async () => {
        await useRelay(['sh', '-c', 'echo "sessiond: the daemon did not start" >&2; exit 69']);
        await join_('x');
        await hears('x cannot be opened: no daemon could be reached or started (run `sessiond doctor`; so does the log)');
        await say('x', 'waits');
        await status('x:0 offline 1 unsent');
        // When the daemon is there after all, it is sent.
        await other().request('session/new', { sessionId: 'x' });
        await useRelay();
        await run('reconnect');
        await shows('x', 'waits');
        await status('x:1');
    });

    it('a refused token', async () => {
        await fake({ initialize: failing('unauthorized', 'a token is needed') });
        await join_('x');
        await hears('x cannot be opened: a token is needed (look at the disk)');
        await status('x:0 offline');
        await say('x', 'again');
        await hears('Not sent: a token is needed');
        await drafted('x', 'again');
    });

    it('a daemon of another protocol', async () => {
        await fake({ initialize: { result: { capabilities: {} } } });
        await join_('x');
        await hears('the daemon speaks protocol 0, this extension 1 (update sessiond or the extension, then run `sessiond stop`)');
        await status('x:0 offline');
    });

    it('a read-only disk', async () => {
        const full = failing('readOnly', 'the disk is full');
        await fake({ 'session/append': full, 'state/set': full, 'session/update': full });
        await open('x');
        await say('x', '一行目');
        await hears('Not sent: the disk is full (look at the disk)');
        await drafted('x', '一行目');
        await hears('The draft is not kept: the disk is full');
        await say('x', 'two');
        await drafted('x', 'two\n\n一行目');
        assert.ok(draft('x')!.isDirty, 'VS Code would ask before it closes the draft');
        assert.equal(said.filter((text) => text.startsWith('The draft is not kept')).length, 1);
        willType('other name');
        await run('name');
        await hears('Not renamed: the disk is full');
        await status('x:0');
    });

    it('a message whose fate is unknown is sent again under its id', async () => {
        const log = await fake({ 'session/append': failing('indeterminate', 'the disk failed') });
        await open('x');
        await say('x', 'once');
        await hears('Not sent: the disk failed');
        await drafted('x', 'once');
        await run('sendDraft');
        const sent = await wait('it is sent again', () => {
            const appends = readFileSync(log, 'utf8').split('\n').filter((line) => line.includes('"session/append"'));
            return appends.length === 2 && appends.map((line) => (JSON.parse(line) as { params: { messages: unknown[] } }).params.messages[0]);
        });
        assert.ok(sent);
        assert.deepEqual(sent[0], sent[1]);
    });

    it('a session that is deleted while it is shown', async () => {
        const id = await begin('gone');
        await say(id, 'read me');
        await shows(id, 'read me');
        const peer = other();
        await peer.request('session/delete', { sessionId: id });
        await hears('gone was deleted by somebody else.');
        await status('gone:1 gone');
        await shows(id, 'read me');
        await type(id, 'typed too late');
        await run('sendDraft');
        await hears('Not sent: gone no longer exists');
        await drafted(id, 'typed too late');
        await peer.request('session/restore', { sessionId: id });
        await run('open', id);
        await status('gone:1');
        await drafted(id, 'typed too late');
    });

    it('a session that is moved while it is shown', async () => {
        const id = await begin('mover');
        await say(id, 'read me');
        await shows(id, 'read me');
        const peer = other();
        await peer.request('store/adopt', { path: mkdtempSync(join(tmpdir(), 'shelf-')), name: 'shelf', format: 'jsonl' });
        await peer.request('session/move', { sessionId: id, store: 'shelf' });
        await hears(`mover was moved by somebody else: it is shelf/${id} now.`);
        await run('open', `shelf/${id}`);
        await shows(`shelf/${id}`, 'read me');
    });

    it('a session that is not there', async () => {
        await join_('never').then(
            () => assert.fail('it was opened'),
            () => undefined,
        );
        await hears('never cannot be opened: ');
    });
});
