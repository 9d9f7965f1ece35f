// Session files opened as files: what the daemon gives to any editor.

import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import * as vscode from 'vscode';
import { hooks, other, parts, status, wait, willType } from './help';

describe('files', () => {
    hooks();

    it('outline, folding, hover, diagnostics and actions come from the daemon', async () => {
        const peer = other();
        const messages = [
            { role: 'user', content: 'カタツムリ' },
            { role: 'assistant', content: 'yes' },
        ];
        await peer.request('session/new', { sessionId: 'file', name: 'as a file', messages });
        const [{ path }] = (await peer.request('session/save', { sessionId: 'file' })).saved;
        const { link } = await parts();
        await link.wake();
        const uri = vscode.Uri.file(path);
        await vscode.window.showTextDocument(uri);
        const symbols = await wait('an outline', async () => {
            const found = await vscode.commands.executeCommand<vscode.DocumentSymbol[]>('vscode.executeDocumentSymbolProvider', uri);
            return (found ?? []).some(({ name }) => name === 'user: カタツムリ') && found;
        });
        assert.ok(symbols && symbols.some(({ name }) => name === 'assistant: yes'));
        const hovers = await vscode.commands.executeCommand<vscode.Hover[]>('vscode.executeHoverProvider', uri, new vscode.Position(1, 0));
        assert.match((hovers[0].contents[0] as vscode.MarkdownString).value, /\*\*user\*\*/);
        await appendFile(path, '{"this is": no JSON\n');
        const problems = await wait('diagnostics', () => {
            const found = vscode.languages.getDiagnostics(uri);
            return found.length > 0 && found;
        });
        assert.ok(problems);
        assert.equal(problems[0].source, 'sessiond');
        assert.equal(problems[0].range.start.line, 3);
        const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>('vscode.executeCodeActionProvider', uri, new vscode.Range(1, 0, 1, 0));
        assert.deepEqual(actions.map(({ title }) => title), ['Resume this session', 'Fork the session after this message', 'Export as Markdown']);
        const resume = actions[0].command!;
        await vscode.commands.executeCommand(resume.command, ...resume.arguments!);
        await status('as a file:2');
        const fork = actions[1].command!;
        willType('forked from a file');
        await vscode.commands.executeCommand(fork.command, ...fork.arguments!);
        await status('forked from a file:1');
    });

    it('a file outside all stores is left alone', async () => {
        const uri = vscode.Uri.joinPath(vscode.workspace.workspaceFolders![0].uri, 'other.jsonl');
        await vscode.workspace.fs.writeFile(uri, Buffer.from('{"no": session\n'));
        await vscode.window.showTextDocument(uri);
        const found = await vscode.commands.executeCommand<vscode.DocumentSymbol[] | undefined>('vscode.executeDocumentSymbolProvider', uri);
        assert.deepEqual(found ?? [], []);
        assert.deepEqual(vscode.languages.getDiagnostics(uri), []);
    });

    it('symbols of the workspace are sessions only if the person wants that', async () => {
        const peer = other();
        await peer.request('session/new', { sessionId: 'sym', messages: [{ role: 'user', content: 'unmistakable' }] });
        await peer.request('session/save', { sessionId: 'sym' });
        const symbols = (): Thenable<vscode.SymbolInformation[]> => vscode.commands.executeCommand('vscode.executeWorkspaceSymbolProvider', 'unmistakable');
        assert.deepEqual(await symbols(), []);
        const settings = vscode.workspace.getConfiguration('sessiond');
        await settings.update('workspaceSymbols', true, vscode.ConfigurationTarget.Global);
        try {
            await wait('a symbol', async () => (await symbols()).some(({ name }) => name.includes('unmistakable')));
        } finally {
            await settings.update('workspaceSymbols', undefined, vscode.ConfigurationTarget.Global);
        }
    });
});
