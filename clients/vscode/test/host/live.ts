// A session that others write to while it is shown.

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { chatUri } from '../../src/uris';
import { begin, document, heads, hooks, open, other, parts, say, shows, status, texts, wait } from './help';

describe('live', () => {
    hooks();

    it('both sides see each other at once', async () => {
        const id = await begin('both');
        const peer = other();
        await peer.request('session/open', { sessionId: id });
        await peer.append(id, { role: 'user', content: 'from the other\nside' }, { role: 'assistant', content: '' });
        await shows(id, 'from the other', 'side');
        await say(id, 'von hier');
        const heard = await wait('the other hears it', () => peer.heard.find(({ method }) => method === 'session/changed'));
        assert.equal(heard!.params.changes[0].messages[0].content, 'von hier');
        await shows(id, 'from the other', 'side', 'von hier');
        await status('both:3');
        assert.equal(document(id)!.languageId, 'sessiond');
    });

    it('what is said while VS Code reads a conversation is shown', async () => {
        const peer = other();
        await peer.request('session/new', { sessionId: 'grows', messages: [{ role: 'user', content: 'before' }] });
        const { chats } = await parts();
        const read = chats.readFile.bind(chats);
        chats.readFile = async (uri) => {
            chats.readFile = read;
            const bytes = await read(uri);
            const told = new Promise<void>((resolve) => {
                const listening = chats.onDidChangeFile(() => {
                    listening.dispose();
                    resolve();
                });
            });
            await peer.append('grows', { role: 'user', content: 'meanwhile' });
            await told;
            return bytes;
        };
        // No tab shows it yet.
        await vscode.workspace.openTextDocument(chatUri({ sessionId: 'grows', name: null }));
        await shows('grows', 'before', 'meanwhile');
        await open('grows');
    });

    it('a streamed reply grows by code points', async () => {
        const id = await begin('stream');
        const peer = other();
        await peer.append(id, { id: 'r', role: 'assistant', content: '日', status: 'streaming' });
        await wait('it begins', () => heads(id)[0]?.endsWith(' · …'));
        for (const text of ['本\n😀', '👩‍💻é\n\nlast']) {
            await peer.request('session/extend', { sessionId: id, messageId: 'r', text });
        }
        await shows(id, '日本', '😀👩‍💻é', 'last');
        await peer.request('session/finish', { sessionId: id, messageId: 'r', toolCalls: [{ id: 'c', name: 'ls', arguments: { path: '/' } }] });
        await shows(id, '日本', '😀👩‍💻é', 'last', '→ ls({"path":"/"})');
        assert.ok(!heads(id)[0].includes('…'));
    });

    it('a reply that is cut off says so and what came stays', async () => {
        const id = await begin('cut');
        const peer = other();
        await peer.append(id, { id: 'r', role: 'assistant', content: 'Once', status: 'streaming' });
        await peer.request('session/extend', { sessionId: id, messageId: 'r', text: ' upon' });
        await shows(id, 'Once upon');
        await peer.kill();
        await wait('it is interrupted', () => heads(id)[0].endsWith(' · interrupted'));
        await shows(id, 'Once upon');
        await status('cut:1');
    });

    it('two replies stream at once and messages come in between', async () => {
        const id = await begin('two');
        const [one, two] = [other(), other()];
        await one.append(id, { id: 'r1', role: 'assistant', content: 'a', status: 'streaming' });
        await two.append(id, { id: 'r2', role: 'assistant', content: 'x', status: 'streaming' });
        await say(id, 'between');
        await shows(id, 'a', 'x', 'between');
        const expected = { r1: 'a', r2: 'x' };
        for (let n = 0; n < 30; n += 1) {
            expected.r1 += `${n} `;
            expected.r2 += `${n},`;
            await Promise.all([
                one.request('session/extend', { sessionId: id, messageId: 'r1', text: `${n} ` }),
                two.request('session/extend', { sessionId: id, messageId: 'r2', text: `${n},` }),
            ]);
        }
        await shows(id, expected.r1, expected.r2, 'between');
    });

    it('an editor at the end stays at the end, one that looks back stays there', async () => {
        const id = await begin('follow');
        const peer = other();
        const content = Array.from({ length: 60 }, (_, n) => `line ${n}`).join('\n');
        await peer.append(id, { role: 'user', content });
        const editor = await open(id);
        await wait('it is shown', () => texts(id).length === 60);
        const last = (): number => editor.visibleRanges.at(-1)!.end.line;
        await wait('the end is visible', () => last() >= document(id)!.lineCount - 2);
        await peer.append(id, { role: 'assistant', content });
        await wait('120 lines', () => texts(id).length === 120);
        await wait('the end is visible again', () => last() >= document(id)!.lineCount - 2);
        editor.revealRange(new vscode.Range(0, 0, 0, 0));
        await wait('the beginning is visible', () => editor.visibleRanges[0].start.line === 0);
        await peer.append(id, { role: 'user', content });
        await wait('180 lines', () => texts(id).length === 180);
        // Whatever would scroll has scrolled when the next change is there.
        await peer.append(id, { role: 'user', content: 'more' });
        await wait('181 lines', () => texts(id).length === 181);
        assert.equal(editor.visibleRanges[0].start.line, 0);
    });

    it('cleared and truncated by somebody else', async () => {
        const id = await begin('cleared');
        const peer = other();
        await peer.append(id, ...['1', '2', '3'].map((content) => ({ role: 'user', content })));
        await shows(id, '1', '2', '3');
        await peer.request('session/truncate', { sessionId: id, afterSeq: 2 });
        await shows(id, '1', '2');
        await peer.request('session/clear', { sessionId: id });
        await shows(id);
        await status('cleared:0');
    });

    it('outline and folding know the messages', async () => {
        const id = await begin('outline');
        const peer = other();
        await peer.append(
            id,
            { role: 'user', content: '# no heading of ours\ntext' },
            { role: 'assistant', content: 'reply', thinking: 'so\nand so', toolCalls: [{ id: 'c', name: 'ls', arguments: {} }] },
        );
        await wait('it is shown', () => heads(id).length === 2);
        const uri = document(id)!.uri;
        const symbols = await vscode.commands.executeCommand<vscode.DocumentSymbol[]>('vscode.executeDocumentSymbolProvider', uri);
        assert.deepEqual(symbols.map(({ name }) => name), ['user: # no heading of ours', 'assistant: reply']);
        assert.deepEqual(symbols[1].children.map(({ name }) => name), ['ls']);
        const folds = await vscode.commands.executeCommand<vscode.FoldingRange[]>('vscode.executeFoldingRangeProvider', uri);
        const text = document(id)!.getText().split('\n');
        assert.deepEqual(folds.map(({ start, end }) => [text[start].split(' · ')[0], text[end]]), [
            ['▌ user', 'text'],
            ['▌ assistant', '→ ls({})'],
            ['> so', '> and so'],
        ]);
    });

    it('20,000 messages: the end at once, the rest on demand', async () => {
        const peer = other();
        const messages = Array.from({ length: 20_000 }, (_, n) => ({ id: `m${n}`, role: 'user', content: `message ${n}` }));
        await peer.request('session/new', { sessionId: 'large', messages: messages.slice(0, 10_000) });
        await peer.append('large', ...messages.slice(10_000));
        await open('large');
        await wait('the end', () => texts('large').at(-1) === 'message 19999');
        assert.equal(texts('large').length, 200);
        await status('large:20000');
        const { chats, rooms } = await parts();
        await chats.older(rooms.get('large')!, false);
        assert.equal(texts('large')[0], 'message 19600');
        const editor = await chats.show({ sessionId: 'large', name: null }, 18_001);
        assert.equal(editor.document.lineAt(editor.selection.active.line + 1).text, 'message 18000');
        await chats.older(rooms.get('large')!, true);
        assert.equal(texts('large').length, 20_000);
        assert.equal(new Set(texts('large')).size, 20_000);
        await peer.append('large', { role: 'user', content: 'one more' });
        await wait('it goes on', () => texts('large').at(-1) === 'one more');
    });
});
