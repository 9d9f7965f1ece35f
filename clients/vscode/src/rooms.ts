// All open sessions. A session is open while a tab of VS Code shows it or its draft.

import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';
import { systemClock } from './core/clock';
import { failureOf } from './core/failure';
import { Change, FileWarning } from './core/protocol';
import { Returned } from './core/returned';
import { Outbox, Room, RoomHost, Unsent } from './core/room';
import { Link } from './link';
import { Tell } from './tell';
import { CHAT, documentOf, DRAFT, idOf, tabsOf, uriOfTab } from './uris';

const UNSENT = 'unsent:';
/** The longest time from reading a document to the tab that shows it. */
const READING_MS = 10_000;

/** In VS Code's own storage, one entry for each message, so that windows do not overwrite each other's. */
class StoredOutbox implements Outbox {
    /** The last requested value, by key; undefined: the entry should not exist. */
    private readonly wanted = new Map<string, string | undefined>();

    constructor(private readonly storage: vscode.Memento) {}

    /** Sessions that something waits for. */
    sessions(): Set<string> {
        const keys = [...this.storage.keys(), ...this.wanted.keys()].filter((key) => key.startsWith(UNSENT));
        const ids = keys.map((key) => key.slice(UNSENT.length, key.lastIndexOf(':')));
        return new Set(ids.filter((id) => this.load(id).length > 0));
    }

    load(sessionId: string): Unsent[] {
        const prefix = `${UNSENT}${sessionId}:`;
        const keys = new Set([...this.storage.keys(), ...this.wanted.keys()].filter((key) => key.startsWith(prefix)));
        return [...keys].flatMap((key) => {
            const text = this.wanted.has(key) ? this.wanted.get(key) : this.storage.get<string>(key);
            return text === undefined ? [] : [{ id: key.slice(prefix.length), text }];
        });
    }

    keep(sessionId: string, unsent: Unsent): void {
        void this.store(`${UNSENT}${sessionId}:${unsent.id}`, unsent.text);
    }

    drop(sessionId: string, unsent: Unsent): void {
        void this.store(`${UNSENT}${sessionId}:${unsent.id}`, undefined);
    }

    /** VS Code loses a change that is made just before it is told of the end of an earlier one, so each is checked when it is done. */
    private async store(key: string, text: string | undefined): Promise<void> {
        this.wanted.set(key, text);
        do {
            await this.storage.update(key, text);
        } while (this.wanted.get(key) === text && this.storage.get(key) !== text);
    }
}

/** What the documents of a session provide for its room. */
export interface Views {
    draftText(room: Room): string | undefined;
    showDraft(room: Room, text: string): void;
    draftSettled(room: Room): void;
    draftChanged(room: Room): void;
    /** The last tab of the draft was closed. */
    draftClosed(room: Room): void;
}

export class Rooms implements vscode.Disposable {
    views!: Views;
    private readonly rooms = new Map<string, Room>();
    private readonly returned = new Map<string, Returned>();
    private readonly leaving = new Map<string, Promise<void>>();
    private readonly painted = new vscode.EventEmitter<Room>();
    private readonly disposables: vscode.Disposable[] = [this.painted];
    private readonly outbox: StoredOutbox;
    private latest: string | undefined;
    /** Something in a room must be shown again. */
    readonly onPaint = this.painted.event;

    constructor(
        private readonly link: Link,
        private readonly tell: Tell,
        storage: vscode.Memento,
    ) {
        this.outbox = new StoredOutbox(storage);
        this.disposables.push(
            link.onNotification(({ method, params }) => {
                this.rooms.get(params.sessionId ?? (params as { session?: { sessionId?: string } }).session?.sessionId ?? '')?.notified(method, params as { changes?: Change[]; movedTo?: string });
            }),
            link.onState((state) => {
                for (const room of this.all) {
                    if (state === 'up') {
                        room.connected();
                    } else if (state !== 'connecting') {
                        room.disconnected(state === 'refused');
                    }
                }
            }),
            vscode.workspace.onDidCloseTextDocument((document) => this.release(document.uri)),
            vscode.window.tabGroups.onDidChangeTabs(({ opened, closed }) => {
                for (const uri of closed.map(uriOfTab)) {
                    const room = uri?.scheme === DRAFT ? this.get(idOf(uri)) : undefined;
                    if (room !== undefined && tabsOf(room.id, DRAFT).length === 0) {
                        this.views.draftClosed(room);
                    }
                    this.release(uri);
                }
                // A document that VS Code kept is shown again without being read.
                for (const id of opened.map((tab) => idOf(uriOfTab(tab)))) {
                    if (id !== undefined) {
                        this.join(id);
                    }
                }
            }),
            vscode.window.onDidChangeActiveTextEditor((editor) => this.lookedAt(editor?.document.uri)),
        );
    }

    dispose(): void {
        vscode.Disposable.from(...this.disposables).dispose();
    }

    get size(): number {
        return this.rooms.size;
    }

    get all(): Room[] {
        return [...this.rooms.values()];
    }

    get(id: string | undefined): Room | undefined {
        return id === undefined ? undefined : this.rooms.get(id);
    }

    /** The room of a session, opened if necessary. */
    join(id: string): Room {
        let room = this.rooms.get(id);
        if (room === undefined) {
            const returned = this.returned.get(id) ?? new Returned();
            this.returned.set(id, returned);
            room = new Room(id, this.host(), this.leaving.get(id), returned);
            this.rooms.set(id, room);
            this.latest = id;
        }
        return room;
    }

    /** The room of a session that VS Code reads. If in the end no tab shows it, it is left again. */
    joinToRead(uri: vscode.Uri, id: string): Room {
        const room = this.join(id);
        setTimeout(() => {
            // A later room of the same session is on its way to its own tab.
            if (this.rooms.get(id) === room) {
                this.release(uri);
            }
        }, READING_MS).unref();
        return room;
    }

    /** The room of a session that the user requests: one that is gone is opened again. */
    again(id: string): Room {
        if (this.rooms.get(id)?.state === 'gone') {
            this.rooms.delete(id);
        }
        return this.join(id);
    }

    /** The session of the active editor, otherwise the one viewed last. */
    get current(): Room | undefined {
        return this.get(idOf(vscode.window.activeTextEditor?.document.uri)) ?? this.get(this.latest);
    }

    /** A document that VS Code keeps although its session was left: reading it again must not open the session. */
    kept(uri: vscode.Uri): vscode.TextDocument | undefined {
        const id = idOf(uri);
        if (id === undefined || this.rooms.has(id) || tabsOf(id, uri.scheme).length > 0) {
            return undefined;
        }
        return documentOf(id, uri.scheme);
    }

    /** Before VS Code ends: sends the drafts to the daemon, and saves the sessions. */
    async leaveAll(): Promise<void> {
        const rooms = this.all;
        this.rooms.clear();
        await Promise.all(rooms.map((room) => room.leave()));
    }

    private lookedAt(uri: vscode.Uri | undefined): void {
        const id = idOf(uri);
        if (id !== undefined && this.rooms.has(id)) {
            this.latest = id;
        }
    }

    /** Opens the sessions of an earlier window, or of a closed tab, with messages that the daemon does not have yet. */
    sendWhatWaits(): void {
        for (const id of this.outbox.sessions()) {
            this.join(id);
        }
    }

    /** Leaves the session that this belongs to, unless a tab still shows it. VS Code keeps documents for a while when their tabs are gone. */
    release(uri: vscode.Uri | undefined): void {
        const id = idOf(uri);
        if (id !== undefined) {
            this.releaseSession(id);
        }
    }

    private releaseSession(id: string): void {
        const room = this.rooms.get(id);
        if (room === undefined || tabsOf(id, CHAT).length > 0 || tabsOf(id, DRAFT).length > 0) {
            return;
        }
        // Our messages are still sent; `allSent` comes here again.
        if (room.unsent.length > 0 && room.state !== 'gone') {
            return;
        }
        this.rooms.delete(id);
        if (this.latest === id) {
            this.latest = undefined;
        }
        const left = room.leave().finally(() => {
            if (this.leaving.get(id) === left) {
                this.leaving.delete(id);
            }
        });
        this.leaving.set(id, left);
        this.painted.fire(room);
    }

    private host(): RoomHost {
        return {
            wire: this.link,
            clock: systemClock,
            outbox: this.outbox,
            newId: () => `vscode-${randomUUID()}`,
            paint: (room) => this.painted.fire(room),
            failed: (doing, failure) => this.tell.failed(doing, failureOf(failure)),
            warn: (text) => this.tell.warn(text),
            warnings: (room, warnings) => this.warnings(room, warnings),
            wake: () => this.link.wake(),
            draftText: (room) => this.views.draftText(room),
            showDraft: (room, text) => this.views.showDraft(room, text),
            draftSettled: (room) => this.views.draftSettled(room),
            draftChanged: (room) => this.views.draftChanged(room),
            allSent: (room) => this.releaseSession(room.id),
        };
    }

    private warnings(room: Room, warnings: FileWarning[]): void {
        const first = warnings[0];
        const place = first.line === null ? first.path : `${first.path}:${first.line}`;
        const others = warnings.length > 1 ? ` (and ${warnings.length - 1} more)` : '';
        this.tell.warn(`${room.label}: ${place}: ${first.message}${others}`);
    }
}
