// What is being typed, as a separate document below the conversation. The daemon keeps its text; a document is unsaved in VS Code while the
// daemon does not have its text.

import * as vscode from 'vscode';
import { failureOf } from './core/failure';
import { Room } from './core/room';
import { Rooms, Views } from './rooms';
import { CHAT, documentOf, DRAFT, draftUri, idOf, tabsOf } from './uris';

/** Share of the height, if only conversation and draft are in the window. */
const CHAT_HEIGHT = 0.75;
const FILL_TRIES = 20;

export class Drafts implements vscode.FileSystemProvider, Views, vscode.Disposable {
    private readonly changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
    private readonly mtimes = new Map<string, number>();
    /** Texts that are on their way into a document, and its content when they were made. */
    private readonly coming = new Map<string, { text: string; base: string }>();
    private showing: Promise<void> = Promise.resolve();
    private readonly disposables: vscode.Disposable[] = [this.changed];
    readonly onDidChangeFile = this.changed.event;

    constructor(
        private readonly rooms: Rooms,
        private readonly log: vscode.LogOutputChannel,
    ) {
        rooms.views = this;
        this.disposables.push(
            vscode.workspace.registerFileSystemProvider(DRAFT, this, { isCaseSensitive: true }),
            vscode.workspace.onDidChangeTextDocument(({ document }) => {
                if (document.uri.scheme === DRAFT) {
                    this.touched(document);
                }
            }),
        );
    }

    dispose(): void {
        vscode.Disposable.from(...this.disposables).dispose();
    }

    /** Settled when every pending text is shown. */
    get idle(): Promise<void> {
        return this.showing;
    }

    /** Shows the draft of a session below its conversation. */
    async open(room: Room, preserveFocus = false): Promise<vscode.TextEditor> {
        const visible = vscode.window.visibleTextEditors.find(({ document }) => document.uri.scheme === DRAFT && idOf(document.uri) === room.id);
        const uri = documentOf(room.id, DRAFT)?.uri ?? draftUri({ sessionId: room.id, name: room.info?.name ?? null });
        const document = await vscode.workspace.openTextDocument(uri);
        const viewColumn = visible?.viewColumn ?? (await this.column(room));
        const { end } = document.lineAt(document.lineCount - 1).range;
        // The cursor is set with the editor: the user may type before we could do it afterwards.
        return vscode.window.showTextDocument(document, { viewColumn, preview: false, preserveFocus, selection: new vscode.Range(end, end) });
    }

    // Views

    draftText(room: Room): string | undefined {
        // An untouched document may be older than the daemon's text.
        const document = documentOf(room.id, DRAFT);
        return this.coming.get(room.id)?.text ?? (document?.isDirty ? document.getText() : undefined);
    }

    showDraft(room: Room, text: string): void {
        const document = documentOf(room.id, DRAFT);
        if (text === '' && document === undefined) {
            return;
        }
        this.coming.set(room.id, { text, base: document?.getText() ?? room.draft.kept });
        this.showing = this.showing
            .then(() => this.fill(room))
            .catch((error: unknown) => this.log.error(`the draft cannot be shown: ${String(error)}`));
    }

    draftSettled(room: Room): void {
        const document = documentOf(room.id, DRAFT);
        if (document?.isDirty) {
            void document.save();
        }
    }

    draftChanged(room: Room): void {
        const document = documentOf(room.id, DRAFT);
        if (document !== undefined && !document.isDirty) {
            this.mtimes.set(room.id, Date.now());
            this.changed.fire([{ type: vscode.FileChangeType.Changed, uri: document.uri }]);
        }
    }

    /** A closed tab was saved before, or the user discards it. */
    draftClosed(room: Room): void {
        const document = documentOf(room.id, DRAFT);
        if (this.coming.has(room.id)) {
            return; // a new text opens its tab again
        }
        room.draft.discard();
        const text = room.draft.kept;
        // VS Code reads the earlier text, but not while it is saving: then the document has the discarded text.
        if (document !== undefined && document.getText() !== text) {
            this.coming.set(room.id, { text, base: document.getText() });
            this.showing = this.showing
                .then(() => this.fill(room, false))
                .then(() => document.save())
                .then(undefined, (error: unknown) => this.log.error(`the draft cannot be taken back: ${String(error)}`));
        }
    }

    private touched(document: vscode.TextDocument): void {
        const id = idOf(document.uri)!;
        const room = this.rooms.get(id);
        if (room !== undefined) {
            room.draft.touch(document.getText());
        } else if (document.isDirty && !this.coming.has(id) && tabsOf(id, DRAFT).length === 0) {
            // Saving it failed after its tab had been closed. VS Code would open it again.
            void document.save();
        }
    }

    private async fill(room: Room, show = true): Promise<void> {
        const coming = this.coming.get(room.id);
        if (coming === undefined) {
            return;
        }
        const uri = documentOf(room.id, DRAFT)?.uri ?? draftUri({ sessionId: room.id, name: room.info?.name ?? null });
        const document = await vscode.workspace.openTextDocument(uri);
        for (let tries = 0; document.getText() !== coming.text; tries += 1) {
            const edit = new vscode.WorkspaceEdit();
            edit.set(document.uri, [changeTo(document, coming.text, coming.base)]);
            if (await vscode.workspace.applyEdit(edit)) {
                break;
            }
            // The user typed at the same time.
            if (tries === FILL_TRIES) {
                throw new Error('VS Code did not take the text');
            }
        }
        if (this.coming.get(room.id) === coming) {
            this.coming.delete(room.id);
        }
        if (show && coming.text !== '' && tabsOf(room.id, DRAFT).length === 0) {
            await this.open(room, true);
        }
        room.draft.touch();
    }

    /** Where drafts are already shown; otherwise below the conversation. */
    private async column(room: Room): Promise<vscode.ViewColumn> {
        const groups = vscode.window.tabGroups;
        const drafts = groups.all.find((group) => group.tabs.some((tab) => (tab.input as { uri?: vscode.Uri } | undefined)?.uri?.scheme === DRAFT));
        if (drafts !== undefined) {
            return drafts.viewColumn;
        }
        if (groups.all.length === 1) {
            await vscode.commands.executeCommand('vscode.setEditorLayout', {
                orientation: 1,
                groups: [{ size: CHAT_HEIGHT }, { size: 1 - CHAT_HEIGHT }],
            });
            return vscode.ViewColumn.Two;
        }
        const chat = tabsOf(room.id, CHAT)[0];
        return chat === undefined ? vscode.ViewColumn.Active : chat.group.viewColumn + 1;
    }

    // FileSystemProvider

    watch(): vscode.Disposable {
        return new vscode.Disposable(() => undefined); // changes are reported anyway
    }

    stat(uri: vscode.Uri): vscode.FileStat {
        const text = this.rooms.get(idOf(uri))?.draft.kept ?? '';
        return { type: vscode.FileType.File, ctime: 0, mtime: this.mtimes.get(idOf(uri) ?? '') ?? 1, size: Buffer.byteLength(text) };
    }

    async readFile(uri: vscode.Uri): Promise<Uint8Array> {
        return Buffer.from(await this.stored(uri));
    }

    async writeFile(uri: vscode.Uri): Promise<void> {
        const id = idOf(uri);
        if (id !== undefined && this.rooms.get(id) === undefined && tabsOf(id, DRAFT).length === 0) {
            return; // it is no longer wanted
        }
        const room = this.room(uri);
        if (room.draft.text() === room.draft.kept) {
            return;
        }
        if (room.state !== 'open') {
            throw vscode.FileSystemError.Unavailable('the daemon is away; the text is kept here till it is back');
        }
        try {
            await room.draft.keep();
        } catch (error) {
            throw vscode.FileSystemError.Unavailable(failureOf(error).said);
        }
        this.mtimes.set(room.id, Date.now());
    }

    readDirectory(): [string, vscode.FileType][] {
        return [];
    }

    createDirectory(uri: vscode.Uri): void {
        throw vscode.FileSystemError.NoPermissions(uri);
    }

    delete(uri: vscode.Uri): void {
        throw vscode.FileSystemError.NoPermissions(uri);
    }

    rename(uri: vscode.Uri): void {
        throw vscode.FileSystemError.NoPermissions(uri);
    }

    private room(uri: vscode.Uri): Room {
        const id = idOf(uri);
        if (id === undefined) {
            throw vscode.FileSystemError.FileNotFound(uri);
        }
        return this.rooms.joinToRead(uri, id);
    }

    /** The daemon's text; what has been typed since is only in the document. */
    private async stored(uri: vscode.Uri): Promise<string> {
        const kept = this.rooms.kept(uri);
        if (kept !== undefined) {
            return kept.getText();
        }
        const room = this.room(uri);
        await room.ready.catch(() => undefined); // a draft outlives its session
        return room.draft.kept;
    }
}

/** Turns `base` into `text` so that what was typed meanwhile remains. */
function changeTo(document: vscode.TextDocument, text: string, base: string): vscode.TextEdit {
    const now = document.getText();
    if (text === '' && now.startsWith(base)) {
        return vscode.TextEdit.delete(new vscode.Range(document.positionAt(0), document.positionAt(base.length)));
    }
    if (text.endsWith(base) && now.endsWith(base)) {
        return vscode.TextEdit.insert(document.positionAt(0), text.slice(0, text.length - base.length));
    }
    return vscode.TextEdit.replace(new vscode.Range(0, 0, document.lineCount, 0), text);
}
