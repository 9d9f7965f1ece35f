// What the commands do.

import { basename } from 'node:path';
import * as vscode from 'vscode';
import { answer } from './answering';
import { Chats } from './chats';
import { failureOf } from './core/failure';
import { isInstalled, otherThanRelay } from './core/program';
import { SessionInfo } from './core/protocol';
import { Room } from './core/room';
import { changedTags, fenced, fileName, title, typedTags } from './core/words';
import { Drafts } from './drafts';
import { Link } from './link';
import { pickSession, SearchPick } from './picks';
import { Rooms } from './rooms';
import { Tell } from './tell';
import { Node, Tree } from './tree';
import { CHAT, DRAFT, tabsOf } from './uris';

/** The argument of a command: a place in the tree, a session, its id, or nothing (then the current session is meant). */
type Target = Node | SessionInfo | string | undefined;

type Known = Pick<SessionInfo, 'sessionId' | 'name' | 'tags' | 'archived'>;

const EXPORTS = [
    { label: 'Markdown', format: 'markdown', extension: 'md' },
    { label: 'HTML', format: 'html', extension: 'html' },
    { label: 'Org', format: 'org', extension: 'org' },
    { label: 'Text', format: 'text', extension: 'txt' },
    { label: 'JSON', format: 'json', extension: 'json' },
    { label: 'JSON Lines', description: 'lossless', format: 'jsonl', extension: 'jsonl' },
];

/** The tools that can go on with a session. */
export const RESUME_TOOLS = ['aider', 'claude', 'cline', 'codex', 'gemini', 'llm', 'opencode', 'pi', 'qwen'];

export class Commands {
    /** The last search, for tests. */
    searching: SearchPick | undefined;

    constructor(
        private readonly link: Link,
        private readonly rooms: Rooms,
        private readonly chats: Chats,
        private readonly drafts: Drafts,
        private readonly tree: Tree,
        private readonly tell: Tell,
        private readonly log: vscode.LogOutputChannel,
    ) {}

    register(): vscode.Disposable {
        const all: Record<string, [doing: string, run: (...args: never[]) => unknown]> = {
            new: ['No new session', () => this.new()],
            open: ['Not opened', (target: Target) => this.open(target)],
            switch: ['Not opened', () => this.switch()],
            search: ['Not searched', (query?: string) => this.search(query)],
            name: ['Not renamed', (target: Target) => this.name(target)],
            tag: ['Not tagged', (target: Target) => this.tag(target)],
            fork: ['Not forked', (target: Target) => this.fork(target)],
            forkHere: ['Not forked', () => this.forkHere()],
            answer: ['Not answered', (target: Target) => answer(this.link, this.tell, this.meant(target))],
            archive: ['Not archived', (target: Target) => this.archive(target, true)],
            unarchive: ['Not changed', (target: Target) => this.archive(target, false)],
            resume: ['Not resumed', (target: Target) => this.resume(target)],
            export: ['Not exported', (target: Target) => this.export(target)],
            delete: ['Not deleted', (target: Target) => this.delete(target)],
            restore: ['Not restored', (target: Target) => this.restore(target)],
            save: ['Not saved', (target: Target) => this.save(target)],
            close: ['Not closed', () => this.close()],
            copyId: ['Not copied', (target: Target) => this.copyId(target)],
            say: ['Not sent', () => this.say()],
            sendSelection: ['Not sent', () => this.sendSelection()],
            draft: ['No draft', (target: Target) => this.draft(target)],
            sendDraft: ['Not sent', () => this.sendDraft()],
            older: ['No older messages', (id?: string) => this.older(id, false)],
            olderAll: ['No older messages', (id?: string) => this.older(id, true)],
            groupBy: ['Not changed', () => this.groupBy()],
            showCurrent: ['Not shown', () => this.tree.show('current')],
            showArchived: ['Not shown', () => this.tree.show('archived')],
            showDeleted: ['Not shown', () => this.tree.show('deleted')],
            more: ['No more sessions', () => this.tree.more()],
            refresh: ['Not refreshed', () => this.refresh()],
            reconnect: ['No connection', () => this.link.restart()],
            showLog: ['No log', () => this.log.show()],
            // The actions on a session file, under the daemon's names: here the result can be shown.
            'session.open': ['Not opened', ({ sessionId }: { sessionId: string }) => this.open(sessionId)],
            'session.fork': ['Not forked', (params: { sessionId: string; atSeq?: number }) => this.forked(params)],
            'session.export': ['Not exported', ({ sessionId }: { sessionId: string }) => this.export(sessionId)],
        };
        const registered = Object.entries(all).map(([name, [doing, run]]) =>
            vscode.commands.registerCommand(`sessiond.${name}`, async (...args: never[]) => {
                try {
                    return await run(...args);
                } catch (error) {
                    this.tell.failed(doing, failureOf(error));
                    return undefined;
                }
            }),
        );
        return vscode.Disposable.from(...registered);
    }

    // Which session

    /** The session meant: the given one, the current one, or one that the user chooses now. */
    private async which(target: Target, placeholder: string): Promise<Known | undefined> {
        if (typeof target === 'string') {
            const room = this.rooms.get(target);
            return room === undefined ? this.ask(target) : known(room);
        }
        if (target !== undefined && 'sessionId' in target) {
            return target;
        }
        if (target !== undefined && 'kind' in target && target.kind === 'session') {
            return target.session;
        }
        const current = this.rooms.current;
        return current === undefined ? this.pick(placeholder) : known(current);
    }

    /** The id of the session meant, if that is said or shown. */
    private meant(target: Target): string | undefined {
        if (target === undefined || typeof target === 'string') {
            return target ?? this.rooms.current?.id;
        }
        return 'sessionId' in target ? target.sessionId : target.kind === 'session' ? target.session.sessionId : undefined;
    }

    private pick(placeholder: string): Promise<SessionInfo | undefined> {
        return pickSession(this.link, (error) => this.tell.failed('The sessions cannot be listed', failureOf(error)), placeholder);
    }

    private async ask(sessionId: string): Promise<Known> {
        const { session } = await this.link.request<{ session: SessionInfo }>('session/open', { sessionId, last: 1 });
        // Only what a document needs remains open.
        if (this.rooms.get(sessionId) === undefined) {
            await this.link.request('session/close', { sessionId });
        }
        return session;
    }

    /** The open room to write to; if there is none, one is chosen and opened. */
    private async room(): Promise<Room | undefined> {
        const current = this.rooms.current;
        if (current !== undefined) {
            return current;
        }
        const session = await this.pick('Say it in which session?');
        if (session === undefined) {
            return undefined;
        }
        await this.chats.show(session);
        return this.rooms.join(session.sessionId);
    }

    // Sessions

    private async new(): Promise<void> {
        const name = await vscode.window.showInputBox({ title: 'New session', prompt: 'Name (optional)' });
        if (name === undefined) {
            return;
        }
        const cwd = vscode.workspace.workspaceFolders?.find((folder) => folder.uri.scheme === 'file')?.uri.fsPath;
        const params = { ...(name === '' ? {} : { name }), ...(cwd === undefined ? {} : { cwd }) };
        const { session } = await this.link.request<{ session: SessionInfo }>('session/new', params);
        await this.chats.show(session);
        await this.drafts.open(this.rooms.join(session.sessionId));
        this.tree.refresh();
    }

    private async open(target: Target): Promise<void> {
        const session = await this.which(target, 'Open which session?');
        if (session !== undefined) {
            await this.chats.show(session);
        }
    }

    private async switch(): Promise<void> {
        const session = await this.pick('Go to which session?');
        if (session !== undefined) {
            await this.chats.show(session);
        }
    }

    private search(query?: string): void {
        this.searching = new SearchPick(this.link, (hit) => {
            this.chats
                .show({ sessionId: hit.sessionId, name: hit.name }, hit.messageId === null ? undefined : hit.seq)
                .catch((error: unknown) => this.tell.failed('Not opened', failureOf(error)));
        });
        this.searching.show(typeof query === 'string' ? query : '');
    }

    private async update(sessionId: string, fields: object): Promise<SessionInfo> {
        const room = this.rooms.get(sessionId);
        const session =
            room === undefined
                ? (await this.link.request<{ session: SessionInfo }>('session/update', { sessionId, ...fields })).session
                : await room.update(fields);
        this.tree.refresh();
        return session;
    }

    private async name(target: Target): Promise<void> {
        const session = await this.which(target, 'Rename which session?');
        const name = session && (await vscode.window.showInputBox({ title: `Rename ${title(session)}`, value: session.name ?? '' }));
        if (session !== undefined && name !== undefined) {
            await this.update(session.sessionId, { name: name === '' ? null : name });
        }
    }

    private async tag(target: Target): Promise<void> {
        const session = await this.which(target, 'Tag which session?');
        if (session === undefined) {
            return;
        }
        const prompt = 'Tags with blanks between them; in quotes where one has a blank of its own';
        const typed = await vscode.window.showInputBox({ title: `Tags of ${title(session)}`, prompt, value: typedTags(session.tags) });
        if (typed !== undefined) {
            await this.update(session.sessionId, { tags: changedTags([], typed) });
        }
    }

    private async archive(target: Target, archived: boolean): Promise<void> {
        const session = await this.which(target, archived ? 'Archive which session?' : 'Take which session out of the archive?');
        if (session !== undefined) {
            await this.update(session.sessionId, { archived });
            this.tell.info(`${title(session)} is ${archived ? 'archived' : 'no longer archived'}`);
        }
    }

    private async fork(target: Target): Promise<void> {
        const session = await this.which(target, 'Fork which session?');
        if (session !== undefined) {
            await this.forked({ sessionId: session.sessionId });
        }
    }

    /** A copy up to the cursor, including the message there. */
    private async forkHere(): Promise<void> {
        const editor = vscode.window.activeTextEditor;
        const room = this.rooms.current;
        if (editor === undefined || room === undefined || editor.document.uri.scheme !== CHAT) {
            return;
        }
        await this.forked({ sessionId: room.id, atSeq: this.chats.seqAt(editor) ?? 0 });
    }

    private async forked(params: { sessionId: string; atSeq?: number }): Promise<void> {
        const name = await vscode.window.showInputBox({ title: 'Fork', prompt: 'Name of the copy (optional)' });
        if (name === undefined) {
            return;
        }
        const { session } = await this.link.request<{ session: SessionInfo }>('session/fork', { ...params, ...(name === '' ? {} : { name }) });
        await this.chats.show(session);
        this.tree.refresh();
    }

    /** Goes on in another tool: `sessiond resume` in a terminal, which asks and shows its errors there. */
    private async resume(target: Target): Promise<void> {
        const session = await this.which(target, 'Go on with which session?');
        if (session === undefined) {
            return;
        }
        const items = RESUME_TOOLS.map((label) => ({ label, description: isInstalled(label) ? '' : 'not installed' }));
        items.sort((one, other) => one.description.length - other.description.length); // it keeps the order of the rest
        const chosen = await vscode.window.showQuickPick(items, { title: 'Resume in…', placeHolder: 'The tool that goes on with it' });
        if (chosen !== undefined) {
            const { path, args } = otherThanRelay(this.link.command(), 'resume', session.sessionId, '--in', chosen.label, '--run');
            vscode.window.createTerminal({ name: `${title(session)} in ${chosen.label}`, shellPath: path, shellArgs: args }).show();
        }
    }

    private async export(target: Target): Promise<void> {
        const session = await this.which(target, 'Export which session?');
        const kind = session && (await vscode.window.showQuickPick(EXPORTS, { title: `Export ${title(session)}`, placeHolder: 'Format' }));
        if (session === undefined || kind === undefined) {
            return;
        }
        const { content } = await this.link.request<{ content: string }>('session/export', { sessionId: session.sessionId, format: kind.format });
        const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
        const name = `${fileName(title(session))}.${kind.extension}`;
        const uri = await vscode.window.showSaveDialog({
            title: `Export ${title(session)}`,
            ...(folder === undefined ? {} : { defaultUri: vscode.Uri.joinPath(folder, name) }),
            filters: { [kind.label]: [kind.extension] },
        });
        if (uri !== undefined) {
            await vscode.workspace.fs.writeFile(uri, Buffer.from(content));
            this.tell.info(`Exported to ${basename(uri.path)}`);
            await vscode.window.showTextDocument(uri);
        }
    }

    private async delete(target: Target): Promise<void> {
        const session = await this.which(target, 'Delete which session?');
        if (session === undefined) {
            return;
        }
        const { sessionId } = session;
        await this.link.request('session/delete', { sessionId });
        await vscode.window.tabGroups.close([...tabsOf(sessionId, CHAT), ...tabsOf(sessionId, DRAFT)]);
        this.tree.refresh();
        const undo = await vscode.window.showInformationMessage(`${title(session)} is in the trash.`, 'Restore');
        if (undo !== undefined) {
            await this.restore(sessionId);
        }
    }

    private async restore(target: Target): Promise<void> {
        const sessionId = typeof target === 'string' ? target : (await this.which(target, 'Restore which session?'))?.sessionId;
        if (sessionId === undefined) {
            return;
        }
        const { session } = await this.link.request<{ session: SessionInfo }>('session/restore', { sessionId });
        this.tree.refresh();
        await this.chats.show(session);
    }

    private async save(target: Target): Promise<void> {
        const session = await this.which(target, 'Save which session?');
        if (session === undefined) {
            return;
        }
        const { saved } = await this.link.request<{ saved: { path: string; bytes: number }[] }>('session/save', { sessionId: session.sessionId });
        this.tell.info(saved.length > 0 ? `${saved[0].path} (${saved[0].bytes} bytes)` : 'The session file is up to date');
    }

    /** Closes conversation and draft. VS Code asks about a draft that the daemon does not have. */
    private async close(): Promise<void> {
        const room = this.rooms.current;
        if (room !== undefined) {
            await room.draft.flush();
            await vscode.window.tabGroups.close([...tabsOf(room.id, DRAFT), ...tabsOf(room.id, CHAT)]);
        }
    }

    private async copyId(target: Target): Promise<void> {
        const session = await this.which(target, 'Which session?');
        if (session !== undefined) {
            await vscode.env.clipboard.writeText(session.sessionId);
        }
    }

    // Saying something

    private async say(): Promise<void> {
        const room = await this.room();
        const text = room && (await vscode.window.showInputBox({ title: `Say in ${room.label}`, ignoreFocusOut: true }));
        if (room !== undefined && text !== undefined && text.trim() !== '') {
            room.say(text);
        }
    }

    private async sendSelection(): Promise<void> {
        const editor = vscode.window.activeTextEditor;
        if (editor === undefined || editor.selection.isEmpty) {
            this.tell.warn('Nothing is selected');
            return;
        }
        const { document, selection } = editor;
        const text = document.getText(selection);
        const room = await this.room();
        if (room === undefined) {
            return;
        }
        const prose = document.uri.scheme === CHAT || document.uri.scheme === DRAFT || document.languageId === 'markdown' || document.languageId === 'plaintext';
        const plain = prose || !vscode.workspace.getConfiguration('sessiond').get<boolean>('fenceSelection', true);
        const path = vscode.workspace.asRelativePath(document.uri);
        // A selection up to the beginning of a line does not reach into it.
        const last = selection.end.character === 0 && selection.end.line > selection.start.line ? selection.end.line : selection.end.line + 1;
        room.say(plain ? text : fenced(text, document.languageId, path, selection.start.line + 1, last));
        this.tell.info(`Sent to ${room.label}`);
    }

    private async draft(target: Target): Promise<void> {
        const session = await this.which(target, 'Write in which session?');
        if (session !== undefined) {
            if (tabsOf(session.sessionId, CHAT).length === 0) {
                await this.chats.show(session);
            }
            await this.drafts.open(this.rooms.join(session.sessionId));
        }
    }

    private async sendDraft(): Promise<void> {
        const room = await this.room();
        if (room === undefined) {
            return;
        }
        if (room.draft.text() === '') {
            this.tell.info('Nothing has been typed');
            await this.drafts.open(room);
        } else {
            room.sayDraft();
        }
    }

    private async older(id: string | undefined, all: boolean): Promise<void> {
        const room = this.rooms.get(id) ?? this.rooms.current;
        if (room !== undefined) {
            await this.chats.older(room, all);
        }
    }

    // The tree

    private async groupBy(): Promise<void> {
        const settings = vscode.workspace.getConfiguration('sessiond');
        const now = settings.get<string>('groupBy');
        const items = ['day', 'tag', 'folder', 'none'].map((label) => ({ label, picked: label === now }));
        const chosen = await vscode.window.showQuickPick(items, { title: 'Group sessions by' });
        if (chosen !== undefined) {
            await settings.update('groupBy', chosen.label, vscode.ConfigurationTarget.Global);
        }
    }

    private async refresh(): Promise<void> {
        await this.link.wake();
        this.tree.refresh();
    }
}

function known(room: Room): Known {
    return { sessionId: room.id, name: room.info?.name ?? null, tags: room.info?.tags ?? [], archived: room.info?.archived ?? false };
}
