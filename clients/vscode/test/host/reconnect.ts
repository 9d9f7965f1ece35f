// The relay or the daemon dies under an open conversation.

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { CHAT, DRAFT, tabsOf } from '../../src/uris';
import { begin, heads, hooks, other, parts, say, shows, status, useRelay, wait } from './help';

async function lose(): Promise<void> {
    const { link } = await parts();
    process.kill(link.pid!, 'SIGKILL');
}

describe('reconnect', () => {
    hooks();

    it('after a killed relay nothing is missing or shown twice', async () => {
        const id = await begin('relay');
        await say(id, 'one');
        await shows(id, 'one');
        const peer = other();
        await peer.append(id, { id: 'r', role: 'assistant', content: 'begun', status: 'streaming' });
        await shows(id, 'one', 'begun');
        await lose();
        await peer.append(id, { role: 'user', content: 'missed' });
        await peer.request('session/extend', { sessionId: id, messageId: 'r', text: ' and ended' });
        await peer.request('session/finish', { sessionId: id, messageId: 'r' });
        await peer.request('session/update', { sessionId: id, name: 'renamed' });
        await shows(id, 'one', 'begun and ended', 'missed');
        await status('renamed:3');
        await peer.append(id, { role: 'user', content: 'live again' });
        await shows(id, 'one', 'begun and ended', 'missed', 'live again');
    });

    it('a relay that dies while others write, ten times over', async () => {
        const id = await begin('often');
        const peer = other();
        const expected: string[] = [];
        for (let round = 0; round < 10; round += 1) {
            const texts = Array.from({ length: 5 }, (_, n) => `${round}-${n}`);
            expected.push(...texts);
            const writing = (async () => {
                for (const content of texts) {
                    await peer.append(id, { role: 'user', content });
                }
            })();
            const { link } = await parts();
            if (link.pid !== undefined && link.state === 'up') {
                await lose();
                await wait('the loss is noticed', () => link.state !== 'up');
            }
            await writing;
            await wait('it is back', () => link.state === 'up');
        }
        await shows(id, ...expected);
        await status('often:50');
    });

    it('after a killed daemon nothing is missing or shown twice, and what was said meanwhile is sent once', async () => {
        const id = await begin('daemon');
        await say(id, 'one');
        await shows(id, 'one');
        const peer = other();
        await peer.append(id, { id: 'r', role: 'assistant', content: 'cut', status: 'streaming' });
        await shows(id, 'one', 'cut');
        const { rooms, link } = await parts();
        await peer.killDaemon();
        await wait('the loss is noticed', () => rooms.get(id)!.state === 'lost');
        await say(id, '留守の間に');
        assert.equal(rooms.get(id)!.unsent.length, 1);
        await shows(id, 'one', 'cut', '留守の間に');
        await wait('the reply is cut off', () => heads(id)[1].endsWith(' · interrupted'));
        await status('daemon:3');
        const fresh = other();
        assert.deepEqual(await fresh.contents(id), ['one', 'cut', '留守の間に']);
        await fresh.append(id, { role: 'user', content: 'live again' });
        await shows(id, 'one', 'cut', '留守の間に', 'live again');
        assert.equal(link.state, 'up');
    });

    it('what was said while the daemon was away is sent once, though the tab was closed meanwhile', async () => {
        const id = await begin('closed');
        await shows(id);
        const { rooms, link } = await parts();
        await useRelay(['sh', '-c', 'exit 69']);
        await wait('the loss is noticed', () => rooms.get(id)!.state === 'lost');
        await say(id, 'said and left');
        await vscode.commands.executeCommand('workbench.action.closeAllEditors');
        await wait('no tab shows it', () => tabsOf(id, CHAT).length + tabsOf(id, DRAFT).length === 0);
        assert.equal(rooms.get(id)!.unsent.length, 1);
        await useRelay();
        await wait('it is left', () => rooms.get(id) === undefined);
        assert.equal(link.state, 'up');
        assert.deepEqual(await other().contents(id), ['said and left']);
    });

    it('all open sessions are caught up', async () => {
        const ids = [];
        for (const name of ['all1', 'all2', 'all3']) {
            ids.push(await begin(name));
        }
        await other().killDaemon();
        const fresh = other();
        for (const id of ids) {
            await fresh.append(id, { role: 'user', content: `in ${id}` });
        }
        const { rooms } = await parts();
        for (const id of ids) {
            await wait(`${id} is caught up`, () => rooms.get(id)!.transcript.messages.at(-1)?.content === `in ${id}`);
        }
    });

    it('what is asked while the connection is being lost is asked again over the next one', async () => {
        await begin('asked');
        const { link } = await parts();
        process.kill(link.pid!, 'SIGSTOP');
        const asked = link.request<{ sessions: { name: string }[] }>('session/list', { filter: { name: 'asked' } });
        const changed = link.request('session/update', { sessionId: 'nobody', name: 'x' });
        await lose();
        assert.deepEqual((await asked).sessions.map(({ name }) => name), ['asked']);
        await assert.rejects(changed, { kind: 'disconnected' });
    });

    it('a daemon that stops in good order is started again', async () => {
        const id = await begin('stopped');
        await other().request('daemon/stop', {});
        const { rooms } = await parts();
        await wait('the loss is noticed', () => rooms.get(id)!.state !== 'open');
        await wait('it is back', () => rooms.get(id)!.state === 'open');
        await say(id, 'after');
        await shows(id, 'after');
    });
});
