// The commands, one after the other, as a person gives them.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import * as vscode from 'vscode';
import type { Node } from '../../src/tree';
import { begin, Chooser, document, hears, hooks, open, other, parts, run, said, say, shows, status, texts, wait, willChoose, willSaveAs, willType } from './help';

async function groupsShown(): Promise<[string, string[]][]> {
    const { tree } = await parts();
    const label = (node: Node): string => tree.getTreeItem(node).label as string;
    const roots = await tree.getChildren();
    return Promise.all(roots.map(async (node): Promise<[string, string[]]> => [label(node), (await tree.getChildren(node)).map(label)]));
}

async function groupBy(by: string): Promise<void> {
    willChoose(by);
    await run('groupBy');
}

interface Answer {
    choice?: string;
    text?: string;
}

/** Asks in a session; `answer` is there when somebody answered. */
async function asked(sessionId: string, question: object): Promise<{ answer: Promise<Answer> }> {
    const answer = other().request('session/ask', { sessionId, ...question }) as Promise<Answer>;
    const peer = other();
    let waits: string[] = [];
    while (!waits.includes(sessionId)) {
        const page = (await peer.request('session/list', { filter: { activity: 'waiting' } })) as { sessions: { sessionId: string }[] };
        waits = page.sessions.map((session) => session.sessionId);
    }
    return { answer };
}

describe('commands', () => {
    hooks();

    it('every command of the manifest is there, and no other', async () => {
        const manifest = vscode.extensions.getExtension('sessiond.sessiond')!.packageJSON as { contributes: { commands: { command: string }[] } };
        await parts();
        const there = (await vscode.commands.getCommands(true)).filter((name) => /^sessiond\.[a-zA-Z]+$/.test(name));
        const declared = manifest.contributes.commands.map(({ command }) => command);
        const views = there.filter((name) => !declared.includes(name));
        assert.deepEqual(declared.filter((name) => !there.includes(name)), []);
        // What VS Code itself makes of our view container.
        assert.deepEqual(views.filter((name) => name !== 'sessiond.sessions'), []);
    });

    it('new, name, tag, say: the tree and the status bar follow', async () => {
        const id = await begin('first');
        await status('first:0');
        assert.equal(document(id)!.languageId, 'sessiond');
        willType('erste');
        await run('name');
        await status('erste:0');
        willType('work #ideas work');
        await run('tag');
        willType('from an input box');
        await run('say');
        await shows(id, 'from an input box');
        await status('erste:1');
        const { session } = await other().request('session/update', { sessionId: id, summary: 'short' });
        assert.deepEqual([session.name, session.tags], ['erste', ['work', 'ideas']]);
        await wait('the first line says so', () => document(id)!.lineAt(0).text === `· erste (${id}) · #work #ideas`);
    });

    it('the tree groups by day, tag and folder', async () => {
        const peer = other();
        await peer.request('session/new', { sessionId: 'g1', name: 'one', tags: ['red', 'green'], cwd: '/home/x/here' });
        await peer.request('session/new', { sessionId: 'g2', name: 'two', tags: ['red'], cwd: '/home/x/there' });
        const of = async (group: string): Promise<string[]> => (await groupsShown()).find(([label]) => label === group)?.[1] ?? [];
        const known = (names: string[]): string[] => names.filter((name) => name === 'one' || name === 'two').sort();
        await groupBy('day');
        assert.deepEqual(known(await of('Today')), ['one', 'two']);
        await groupBy('tag');
        assert.deepEqual([known(await of('red')), known(await of('green'))], [['one', 'two'], ['one']]);
        await groupBy('folder');
        assert.deepEqual([known(await of('here')), known(await of('there'))], [['one'], ['two']]);
        await groupBy('none');
        assert.deepEqual(known((await groupsShown()).map(([label]) => label)), ['one', 'two']);
        await groupBy('day');
    });

    it('switch offers all sessions with time, count and tags', async () => {
        const peer = other();
        await peer.request('session/new', { sessionId: 'sw', name: 'switch here', tags: ['there'], messages: [{ role: 'user', content: 'x' }] });
        let pick: vscode.QuickPick<vscode.QuickPickItem> | undefined;
        const make = vscode.window.createQuickPick;
        let chooser: Chooser<vscode.QuickPickItem> | undefined;
        vscode.window.createQuickPick = (() => {
            pick = make();
            chooser = new Chooser(pick);
            return pick;
        }) as typeof make;
        try {
            const switched = run('switch');
            const item = await wait('it is offered', () => pick?.items.find(({ label }) => label === 'switch here'));
            assert.match(item!.description!, /^\d{4}-\d\d-\d\d \d\d:\d\d · 1 message · #there · sw$/);
            await wait('all are there', () => !pick!.busy);
            pick!.value = 'switch here';
            await chooser!.accept(item!);
            await switched;
        } finally {
            vscode.window.createQuickPick = make;
        }
        await wait('it is shown', () => texts('sw').length === 1);
        await status('switch here:1');
    });

    it('search shows hits as you type, and leads to the message', async () => {
        const peer = other();
        const messages = Array.from({ length: 300 }, (_, n) => ({ role: 'user', content: n === 7 ? 'the カタツムリ is slow' : `filler ${n}` }));
        await peer.request('session/new', { sessionId: 'find', name: 'snails', messages });
        const { commands } = await parts();
        await run('search');
        const { pick } = commands.searching!;
        const chooser = new Chooser(pick);
        pick.value = 'カタツ';
        const hit = await wait('a hit', () => pick.items.find(({ detail }) => detail?.includes('«カタツ»')));
        assert.equal(hit!.label, 'snails');
        assert.match(hit!.description!, /^user · /);
        assert.equal(pick.title, 'Search: 1 hit');
        pick.value = 'nothing-like-that-anywhere';
        await wait('no hit', () => pick.items.length === 0 && pick.title === 'Search: 0 hits');
        pick.value = 'カタツムリ';
        await wait('a hit again', () => pick.items.length === 1);
        await chooser.accept(pick.items[0]);
        const below = (): string | undefined => {
            const editor = vscode.window.activeTextEditor;
            const line = (editor?.selection.active.line ?? 0) + 1;
            return editor !== undefined && line < editor.document.lineCount ? editor.document.lineAt(line).text : undefined;
        };
        await wait(
            () => `the cursor is there, not above "${below()}" in ${vscode.window.activeTextEditor?.document.uri.toString()}: ${texts('find').length} lines, ${said.join()}`,
            () => below() === 'the カタツムリ is slow',
        );
    });

    it('a bad regular expression says so where it was typed', async () => {
        const { commands } = await parts();
        await run('search');
        const { pick } = commands.searching!;
        pick.value = 'x';
        (commands.searching as unknown as { regex: boolean }).regex = true;
        pick.value = '(';
        await wait('the title says so', () => /position|paren|unterminated/i.test(pick.title ?? ''));
        pick.hide();
    });

    it('fork, whole and up to a message', async () => {
        const id = await begin('trunk');
        await other().append(id, { role: 'user', content: 'one' }, { role: 'user', content: 'two' });
        await shows(id, 'one', 'two');
        willType('branch');
        await run('fork');
        await status('branch:2');
        const editor = await open(id);
        const line = editor.document.getText().split('\n').indexOf('one');
        editor.selection = new vscode.Selection(line, 0, line, 0);
        willType('twig');
        await run('forkHere');
        await status('twig:1');
        const { rooms } = await parts();
        assert.deepEqual(rooms.current!.info!.parent!.sessionId, id);
    });

    it('answer: a choice, a text, and in which session', async () => {
        const id = await begin('asked');
        await other().request('session/new', { sessionId: 'elsewhere', name: 'elsewhere' });
        await run('answer'); // nothing is asked, so nothing is to be chosen
        const choices = [{ id: 'y', label: 'Allow it' }, { id: 'n', label: 'Deny it' }];
        const answered = await asked(id, { text: 'Run make?', choices });
        willChoose('Deny it');
        await run('answer');
        assert.equal((await answered.answer).choice, 'n');
        const written = await asked('elsewhere', { text: 'Which port?' });
        willType('8080');
        await run('answer');
        assert.equal((await written.answer).text, '8080');
    });

    it('archive and take out again, delete and restore', async () => {
        const id = await begin('away');
        await run('archive');
        const { rooms, tree } = await parts();
        await wait('it says so', () => document(id)!.lineAt(0).text.endsWith(' · archived'));
        tree.show('archived');
        assert.ok((await groupsShown()).some(([, names]) => names.includes('away')));
        tree.show('current');
        assert.ok(!(await groupsShown()).some(([, names]) => names.includes('away')));
        await run('unarchive');
        await run('delete');
        await hears('away is in the trash.');
        await wait('its tabs are closed', () => rooms.get(id) === undefined);
        tree.show('deleted');
        assert.ok((await groupsShown()).some(([, names]) => names.includes('away')));
        tree.show('current');
        await run('restore', id);
        await status('away:0');
    });

    it('export writes a file where the person says', async () => {
        const id = await begin('out: "quoted"');
        await say(id, 'words to keep');
        await shows(id, 'words to keep');
        const folder = vscode.workspace.workspaceFolders![0].uri;
        const uri = vscode.Uri.joinPath(folder, 'out.md');
        willChoose('Markdown');
        willSaveAs(uri);
        await run('export');
        assert.match(Buffer.from(await vscode.workspace.fs.readFile(uri)).toString(), /words to keep/);
    });

    it('save tells the file, and what is selected is sent with where it comes from', async () => {
        const id = await begin('selected');
        const folder = vscode.workspace.workspaceFolders![0].uri;
        const uri = vscode.Uri.joinPath(folder, 'code.py');
        await vscode.workspace.fs.writeFile(uri, Buffer.from('a = 1\nb = 2\nc = 3\n'));
        const editor = await vscode.window.showTextDocument(uri, { viewColumn: vscode.ViewColumn.One });
        await run('sendSelection');
        await hears('Nothing is selected');
        editor.selection = new vscode.Selection(0, 0, 2, 0);
        await run('sendSelection');
        await shows(id, 'code.py:1-2', '```python', 'a = 1', 'b = 2', '```');
        const peer = other();
        assert.deepEqual(await peer.contents(id), ['code.py:1-2\n\n```python\na = 1\nb = 2\n```']);
        await run('save', id);
        const { rooms } = await parts();
        assert.match(readFileSync(rooms.get(id)!.info!.path, 'utf8'), /code\.py:1-2/);
    });

    it('resume starts another tool in a terminal, by the program that the settings name', async () => {
        const id = await begin('elsewhere');
        await say(id, 'words to take along');
        await shows(id, 'words to take along');
        const heard = join(homedir(), 'heard');
        // One that stands in for Claude Code: says what it was started with, and stays.
        writeFileSync(join(homedir(), 'bin', 'claude'), `#!/bin/sh\necho "$@" >"$HOME/heard.new"\nmv "$HOME/heard.new" "$HOME/heard"\nsleep 60\n`, { mode: 0o755 });
        const settings = vscode.workspace.getConfiguration('sessiond');
        try {
            for (const path of [undefined, '~/bin/sessiond']) {
                await settings.update('path', path, vscode.ConfigurationTarget.Global);
                willChoose('claude');
                await run('resume', id);
                await wait('claude was started', () => existsSync(heard));
                const [flag, copy] = readFileSync(heard, 'utf8').trim().split(' ');
                assert.equal(flag, '--resume');
                const files = await vscode.workspace.fs.readDirectory(vscode.Uri.file(join(homedir(), '.claude', 'projects')));
                assert.equal(files.length, 1);
                assert.match(readFileSync(join(homedir(), '.claude', 'projects', files[0][0], `${copy}.jsonl`), 'utf8'), /words to take along/);
                const terminal = vscode.window.terminals.find(({ name }) => name === 'elsewhere in claude')!;
                terminal.dispose();
                rmSync(heard);
            }
        } finally {
            await settings.update('path', undefined, vscode.ConfigurationTarget.Global);
        }
    });

    it('the tools that are installed come first, and the others say that they are not', async () => {
        const id = await begin('which');
        let offered: vscode.QuickPickItem[] = [];
        const { showQuickPick } = vscode.window;
        Object.assign(vscode.window, { showQuickPick: (items: vscode.QuickPickItem[]) => Promise.resolve(void (offered = items)) });
        try {
            await run('resume', id);
        } finally {
            Object.assign(vscode.window, { showQuickPick });
        }
        assert.deepEqual([offered[0].label, offered[0].description], ['claude', '']);
        assert.deepEqual([offered[1].label, offered[1].description], ['aider', 'not installed']);
    });
});
