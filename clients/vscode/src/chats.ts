// Conversations as documents to read: their content, and how they follow other clients' changes.

import * as vscode from 'vscode';
import { failureOf } from './core/failure';
import { Renderer } from './core/render';
import { Room } from './core/room';
import { Rooms } from './rooms';
import { CHAT, chatUri, documentOf, idOf, tabsOf, uriOfTab } from './uris';

/** Time between two paintings of a conversation: at least this, and this many times the duration of the last one. */
const PAINT_MS = 50;
const PAINT_TIMES = 5;

const NOTES = { opening: '', open: '', lost: 'offline', gone: 'not there any more' };

interface View {
    renderer: Renderer;
    /** Grows with every painting; VS Code reads a file again when it is newer. */
    mtime: number;
    /** What VS Code has read, or is just reading. */
    uris: Set<string>;
    timer: NodeJS.Timeout | undefined;
    tookMs: number;
}

export class Chats implements vscode.FileSystemProvider, vscode.Disposable {
    private readonly changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
    private readonly read = new vscode.EventEmitter<string>();
    private readonly views = new Map<string, View>();
    private readonly disposables: vscode.Disposable[] = [this.changed, this.read];
    readonly onDidChangeFile = this.changed.event;
    /** VS Code has read a conversation again. */
    readonly onRead = this.read.event;

    constructor(private readonly rooms: Rooms) {
        this.disposables.push(
            vscode.workspace.registerFileSystemProvider(CHAT, this, { isReadonly: true, isCaseSensitive: true }),
            rooms.onPaint((room) => this.paint(room)),
            vscode.workspace.onDidChangeTextDocument((event) => this.follow(event)),
        );
    }

    dispose(): void {
        vscode.Disposable.from(...this.disposables).dispose();
    }

    /** What the editor shows of a session, and where. */
    rendered(uri: vscode.Uri): Renderer | undefined {
        const id = idOf(uri);
        return id === undefined ? undefined : this.views.get(id)?.renderer;
    }

    /** Shows a session: at its end, or at the message with a seq. */
    async show(session: { sessionId: string; name: string | null }, seq?: number): Promise<vscode.TextEditor> {
        const id = session.sessionId;
        const shown = tabsOf(id, CHAT)[0];
        const uri = (shown && uriOfTab(shown)) ?? chatUri(session);
        const room = this.rooms.again(id);
        const editor = await vscode.window.showTextDocument(uri, { viewColumn: shown?.group.viewColumn, preview: false });
        if (seq === undefined) {
            if (shown === undefined) {
                toEnd(editor);
            }
        } else if (await room.reach(seq)) {
            await this.painted(room);
            this.reveal(editor, seq);
        }
        return editor;
    }

    /** Puts older messages before the others; what is in view remains where it is. */
    async older(room: Room, all: boolean): Promise<void> {
        const first = room.transcript.messages[0]?.seq;
        if ((await room.older(all)) === 0 || first === undefined) {
            return;
        }
        await this.painted(room);
        for (const editor of this.editors(room.id)) {
            this.reveal(editor, first);
        }
    }

    /** The seq of the message at the cursor. */
    seqAt(editor: vscode.TextEditor): number | undefined {
        return this.rendered(editor.document.uri)?.at(editor.selection.active.line)?.message.seq;
    }

    // FileSystemProvider

    watch(): vscode.Disposable {
        return new vscode.Disposable(() => undefined); // changes to what is read are reported anyway
    }

    stat(uri: vscode.Uri): vscode.FileStat {
        const id = sessionOf(uri);
        const view = this.view(id);
        return { type: vscode.FileType.File, ctime: 0, mtime: view.mtime, size: Buffer.byteLength(view.renderer.text), permissions: vscode.FilePermission.Readonly };
    }

    async readFile(uri: vscode.Uri): Promise<Uint8Array> {
        const kept = this.rooms.kept(uri);
        if (kept !== undefined) {
            return Buffer.from(kept.getText());
        }
        const room = this.rooms.joinToRead(uri, sessionOf(uri));
        try {
            await room.ready;
        } catch (error) {
            const failure = failureOf(error);
            this.rooms.release(uri);
            throw failure.kind === 'sessionNotFound' ? vscode.FileSystemError.FileNotFound(failure.said) : vscode.FileSystemError.Unavailable(failure.said);
        }
        const view = this.view(room.id);
        view.uris.add(uri.toString());
        const started = performance.now();
        view.renderer.render(room.id, room.transcript, NOTES[room.state]);
        const bytes = Buffer.from(view.renderer.text);
        view.tookMs = performance.now() - started;
        this.read.fire(room.id);
        return bytes;
    }

    readDirectory(): [string, vscode.FileType][] {
        return [];
    }

    createDirectory(uri: vscode.Uri): void {
        throw vscode.FileSystemError.NoPermissions(uri);
    }

    writeFile(uri: vscode.Uri): void {
        throw vscode.FileSystemError.NoPermissions(uri);
    }

    delete(uri: vscode.Uri): void {
        throw vscode.FileSystemError.NoPermissions(uri);
    }

    rename(uri: vscode.Uri): void {
        throw vscode.FileSystemError.NoPermissions(uri);
    }

    // Painting

    private view(id: string): View {
        let view = this.views.get(id);
        if (view === undefined) {
            view = { renderer: new Renderer(), mtime: Date.now(), uris: new Set(), timer: undefined, tookMs: 0 };
            this.views.set(id, view);
        }
        return view;
    }

    private paint(room: Room): void {
        if (this.rooms.get(room.id) !== room) {
            clearTimeout(this.views.get(room.id)?.timer);
            this.views.delete(room.id);
            return;
        }
        const view = this.view(room.id);
        view.timer ??= setTimeout(
            () => {
                view.timer = undefined;
                this.refresh(room.id, view);
            },
            Math.max(PAINT_MS, PAINT_TIMES * view.tookMs),
        );
    }

    private refresh(id: string, view: View): void {
        view.mtime = Math.max(Date.now(), view.mtime + 1);
        // A tab whose document VS Code kept was not read by this view.
        const uris = new Set([...view.uris, ...tabsOf(id, CHAT).map((tab) => uriOfTab(tab)!.toString())]);
        this.changed.fire([...uris].map((uri) => ({ type: vscode.FileChangeType.Changed, uri: vscode.Uri.parse(uri, true) })));
    }

    /** Waits until the document shows all messages that the room has now. */
    private async painted(room: Room): Promise<void> {
        const count = room.transcript.messages.length;
        const there = (): boolean => {
            const document = documentOf(room.id, CHAT);
            const renderer = this.views.get(room.id)?.renderer;
            return document === undefined || renderer === undefined || (renderer.places.length >= count && document.lineCount === renderer.lines);
        };
        while (!there()) {
            await new Promise<void>((resolve) => {
                const listening = vscode.Disposable.from(
                    vscode.workspace.onDidChangeTextDocument(() => done()),
                    vscode.workspace.onDidCloseTextDocument(() => done()),
                );
                const done = (): void => {
                    listening.dispose();
                    resolve();
                };
            });
        }
    }

    private reveal(editor: vscode.TextEditor, seq: number): void {
        const place = this.rendered(editor.document.uri)?.places.findLast(({ message }) => message.seq <= seq);
        if (place !== undefined) {
            const at = new vscode.Position(place.start, 0);
            editor.selection = new vscode.Selection(at, at);
            editor.revealRange(new vscode.Range(at, at), vscode.TextEditorRevealType.AtTop);
        }
    }

    private editors(id: string): vscode.TextEditor[] {
        return vscode.window.visibleTextEditors.filter(({ document }) => document.uri.scheme === CHAT && idOf(document.uri) === id);
    }

    /** Editors that showed the end keep showing it. */
    private follow({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
        const id = document.uri.scheme === CHAT ? idOf(document.uri) : undefined;
        if (id === undefined) {
            return;
        }
        const grown = contentChanges.map(({ range, text }) => text.split('\n').length - 1 - (range.end.line - range.start.line));
        const before = document.lineCount - grown.reduce((sum, lines) => sum + lines, 0);
        for (const editor of this.editors(id)) {
            if ((editor.visibleRanges.at(-1)?.end.line ?? 0) >= before - 2) {
                const end = new vscode.Position(document.lineCount - 1, 0);
                editor.revealRange(new vscode.Range(end, end));
            }
        }
    }
}

function sessionOf(uri: vscode.Uri): string {
    const id = idOf(uri);
    if (id === undefined) {
        throw vscode.FileSystemError.FileNotFound(uri);
    }
    return id;
}

function toEnd(editor: vscode.TextEditor): void {
    const end = new vscode.Position(editor.document.lineCount - 1, 0);
    editor.selection = new vscode.Selection(end, end);
    editor.revealRange(new vscode.Range(end, end));
}
