// What is typed and not sent.

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { DRAFT, tabsOf } from '../../src/uris';
import { begin, closeAll, document, draft, held, hooks, keptDraft, open, other, parts, run, shows, type, wait } from './help';

const text = (id: string): string | undefined => draft(id)?.getText();

describe('drafts', () => {
    hooks();

    it('what is typed is with the daemon soon, and the document is not unsaved any more', async () => {
        const id = await begin('typed');
        const peer = other();
        await type(id, '書きかけ\nsecond line');
        await wait('it is kept', async () => (await keptDraft(peer, id)) === '書きかけ\nsecond line');
        await wait('it is saved', () => !draft(id)!.isDirty);
        assert.equal(text(id), '書きかけ\nsecond line');
    });

    it('it is sent with one command, and kept till it is durable', async () => {
        const id = await begin('sent');
        const peer = other();
        await type(id, 'to send');
        await wait('it is kept', async () => (await keptDraft(peer, id)) === 'to send');
        await run('sendDraft');
        await shows(id, 'to send');
        await wait('nothing is kept', async () => (await keptDraft(peer, id)) === undefined);
        assert.equal(text(id), '');
        assert.deepEqual(await peer.contents(id), ['to send']);
    });

    it('it comes back when the session is opened again', async () => {
        const id = await begin('back');
        await type(id, 'still here');
        await run('close');
        await closeAll();
        const peer = other();
        assert.equal(await keptDraft(peer, id), 'still here');
        await open(id);
        await wait('it is there', () => text(id) === 'still here' && !draft(id)!.isDirty);
        assert.equal(vscode.window.activeTextEditor?.document.uri.toString(), document(id)!.uri.toString());
    });

    it('it is stored no more often than once a second', async () => {
        const id = await begin('slow');
        const peer = other();
        await peer.request('session/open', { sessionId: id });
        const { drafts, rooms } = await parts();
        const editor = await drafts.open(rooms.get(id)!);
        const started = Date.now();
        for (let n = 0; n < 25; n += 1) {
            await editor.edit((edit) => edit.insert(new vscode.Position(0, 0), 'x'));
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
        await wait('all of it is kept', async () => (await keptDraft(peer, id)) === 'x'.repeat(25));
        const seconds = (Date.now() - started) / 1000;
        const stored = peer.heard.filter(({ method }) => method === 'session/changed').length;
        assert.ok(stored >= 2 && stored <= seconds + 1, `${stored} times in ${seconds} s`);
    });

    it('another window changes a draft that nobody types in', async () => {
        const id = await begin('windows');
        const peer = other();
        await type(id, 'ours');
        await wait('it is kept', async () => (await keptDraft(peer, id)) === 'ours');
        await wait('it is saved', () => !draft(id)!.isDirty);
        await peer.request('state/set', { sessionId: id, values: { 'draft:vscode': 'theirs' } });
        await wait('it is shown', () => text(id) === 'theirs');
        assert.ok(!draft(id)!.isDirty);
    });

    for (const [fate, kept] of [['taken', 'worth keeping'], ['refused', 'worth keeping']]) {
        it(`a draft that is discarded while it is being stored does not come back: the daemon has ${fate} it`, async () => {
            const id = await begin(`discarded ${fate}`);
            const peer = other();
            await type(id, kept);
            await wait('it is saved', async () => (await keptDraft(peer, id)) === kept && !draft(id)!.isDirty);
            const answer = await held('state/set', fate === 'refused');
            await type(id, 'never mind');
            const saving = draft(id)!.save();
            await answer.asked;
            await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
            await wait('its tab is closed', () => tabsOf(id, DRAFT).length === 0);
            answer.give();
            await saving;
            const { drafts, rooms } = await parts();
            assert.ok(!draft(id)!.isDirty, 'VS Code would open it again');
            await wait('the daemon has what it had before', async () => (await keptDraft(peer, id)) === kept);
            await drafts.open(rooms.get(id)!);
            await wait(() => `it is there, not ${text(id)}`, () => text(id) === kept && !draft(id)!.isDirty);
        });
    }

    it('what is typed while the daemon is away is kept when it is back', async () => {
        const id = await begin('away');
        const { rooms } = await parts();
        await other().killDaemon();
        await wait('the loss is noticed', () => rooms.get(id)!.state === 'lost');
        await type(id, 'typed in the dark');
        const fresh = other();
        await wait('it is kept', async () => (await keptDraft(fresh, id)) === 'typed in the dark');
        await wait('it is saved', () => !draft(id)!.isDirty);
    });
});
