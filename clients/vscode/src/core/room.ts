// An open session: opening, following, catching up, writing. It joins a transcript, our messages that are not durable yet, and a draft.

import { Clock } from './clock';
import { Draft, DRAFT_KEY } from './draft';
import { Failure, failureOf } from './failure';
import { Part, Returned } from './returned';
import { Appended, Change, FileWarning, Message, Opened, Page, SessionInfo, Wire } from './protocol';
import { Effect, Transcript } from './transcript';

/**
 *   opening  `session/open` is on its way; changes wait
 *   open     follows live
 *   lost     the connection is gone; opened again, since the last seq, when it is back
 *   gone     deleted, or it could not be opened: what is shown remains
 */
export type State = 'opening' | 'open' | 'lost' | 'gone';

/** A message of ours that is not durable yet. Its id makes sure that the daemon takes it once, however often it is sent. */
export interface Unsent {
    id: string;
    text: string;
}

/** Keeps our messages that are not durable where they survive the editor. */
export interface Outbox {
    load(sessionId: string): Unsent[];
    keep(sessionId: string, unsent: Unsent): void;
    drop(sessionId: string, unsent: Unsent): void;
}

export interface RoomHost {
    readonly wire: Wire;
    readonly clock: Clock;
    readonly outbox: Outbox;
    /** An id that no other message has. */
    newId(): string;
    /** Something in the room must be shown again. */
    paint(room: Room): void;
    failed(doing: string, failure: Failure): void;
    warn(text: string): void;
    warnings(room: Room, warnings: FileWarning[]): void;
    /** Connects now rather than when the next attempt is due; rejects if that is useless. */
    wake(): Promise<void>;
    draftText(room: Room): string | undefined;
    showDraft(room: Room, text: string): void;
    draftSettled(room: Room): void;
    draftChanged(room: Room): void;
    /** All our messages in the room are durable. */
    allSent(room: Room): void;
}

const FIRST_PAGE = 200;
const PAGE = 1000;

export class Room {
    readonly transcript = new Transcript();
    readonly draft: Draft;
    state: State = 'opening';
    unsent: Unsent[];
    /** Settled when there is something to show; rejected where the session cannot be opened. */
    readonly ready: Promise<void>;
    private readonly settle: { resolve: () => void; reject: (failure: Failure) => void };
    private left = false;
    private loaded = false;
    private paging: Promise<number> | undefined;
    /** Changes that arrived while the session was being opened. */
    private early: Change[] = [];
    /** Counts the openings; only the answer to the last one counts. */
    private opening = 0;

    constructor(
        readonly id: string,
        private readonly host: RoomHost,
        /** An earlier room of the same session that is still being left: closing it would close this one. */
        before: Promise<unknown> = Promise.resolve(),
        /** It outlives the room, as the draft does. */
        private readonly returned = new Returned(),
    ) {
        let settle!: typeof this.settle;
        this.ready = new Promise((resolve, reject) => (settle = { resolve, reject }));
        this.ready.catch(() => undefined); // callers that await it see it
        this.settle = settle;
        this.unsent = host.outbox.load(id);
        this.draft = new Draft(
            {
                set: async (value) => {
                    await host.wire.request('state/set', { sessionId: id, values: { [DRAFT_KEY]: value } });
                },
                mayStore: () => this.state === 'open' && this.unsent.length === 0,
                text: () => host.draftText(this),
                show: (text) => host.showDraft(this, text),
                settled: () => host.draftSettled(this),
                complain: (failure) => host.failed('The draft is not kept', failure),
            },
            host.clock,
        );
        void before.then(() => this.open(false));
    }

    get info(): SessionInfo | undefined {
        return this.transcript.info;
    }

    // Events of the connection

    connected(): void {
        if (this.state === 'lost') {
            void this.open(this.loaded);
        }
    }

    /** The connection ended. `forGood`: there is no automatic retry. */
    disconnected(forGood: boolean): void {
        // While it is being opened, the answer to that says what happened.
        if (this.state === 'open') {
            this.state = 'lost';
        }
        if (forGood && this.unsent.length > 0) {
            this.takeBack();
        }
        this.host.paint(this);
    }

    notified(method: string, params: { changes?: Change[]; movedTo?: string }): void {
        switch (method) {
            case 'session/changed':
                this.follow(params.changes ?? []);
                break;
            case 'session/reloaded':
                void this.open(false);
                break;
            case 'session/resync':
                if (this.state === 'open') {
                    void this.open(true);
                }
                break;
            case 'session/deleted':
                this.opening += 1;
                this.state = 'gone';
                this.host.warn(
                    params.movedTo
                        ? `${this.label} was moved by somebody else: it is ${params.movedTo} now.`
                        : `${this.label} was deleted by somebody else. \`sessiond restore ${this.id}\` brings it back.`,
                );
                this.host.paint(this);
                break;
        }
    }

    get label(): string {
        return this.info?.name || this.id;
    }

    // Opening and following

    private async open(since: boolean): Promise<void> {
        this.state = 'opening';
        this.opening += 1;
        const mine = this.opening;
        let opened: Opened;
        try {
            const range = since ? { since: this.transcript.seq } : { last: FIRST_PAGE };
            opened = await this.host.wire.request<Opened>('session/open', { sessionId: this.id, ...range });
        } catch (error) {
            if (mine === this.opening && !this.left) {
                this.notOpened(failureOf(error));
            }
            return;
        }
        if (mine !== this.opening || this.left) {
            return;
        }
        if (since && !Array.isArray(opened.changes)) {
            await this.open(false);
            return;
        }
        this.opened(opened, since);
    }

    private opened(opened: Opened, since: boolean): void {
        this.state = 'open';
        const early = this.early;
        this.early = [];
        if (since) {
            this.follow(opened.changes ?? []);
            this.transcript.inform(opened.session);
        } else {
            this.transcript.load(opened);
            this.arrived(opened.messages);
        }
        this.loaded = true;
        this.follow(early);
        if (opened.warnings.length > 0) {
            this.host.warnings(this, opened.warnings);
        }
        for (const unsent of [...this.unsent]) {
            void this.send(unsent);
        }
        this.draft.opened(opened.state[DRAFT_KEY], this.lastSaid());
        if (this.draft.text() === this.draft.kept) {
            this.host.draftChanged(this);
        }
        this.settle.resolve();
        this.host.paint(this);
    }

    private notOpened(failure: Failure): void {
        const mayComeBack = ['disconnected', 'noProgram', 'unreachable', 'refused', 'unavailable', 'cancelled'].includes(failure.kind);
        this.state = mayComeBack ? 'lost' : 'gone';
        this.early = [];
        if (failure.kind !== 'disconnected') {
            this.host.failed(`${this.label} cannot be opened`, failure);
        }
        if (mayComeBack) {
            this.settle.resolve();
        } else {
            this.takeBack();
            this.settle.reject(failure);
        }
        this.host.paint(this);
    }

    private follow(changes: Change[]): void {
        const effects: Effect[] = [];
        for (const change of changes) {
            // Following may begin to open the session again midway.
            if (this.state === 'opening') {
                this.early.push(change);
                continue;
            }
            const effect = this.transcript.apply(change);
            effects.push(effect);
            if (effect === 'read') {
                void this.open(false);
            }
            this.arrived(change.messages ?? []);
            if (change.kind === 'state' && change.values !== undefined && DRAFT_KEY in change.values) {
                if (this.draft.changed(change.values[DRAFT_KEY])) {
                    this.host.draftChanged(this);
                }
            }
        }
        if (effects.includes('paint')) {
            this.host.paint(this);
        }
    }

    private arrived(messages: Message[]): void {
        const left = this.returned.arrived(new Set(messages.map(({ id }) => id)), this.draft.text());
        if (left !== undefined) {
            this.draft.replace(left);
        }
    }

    private lastSaid(): unknown {
        return this.transcript.messages.findLast((message) => message.role === 'user')?.content;
    }

    // Older messages

    /** Loads a page of older messages, or all of them; returns how many came. */
    async older(all: boolean): Promise<number> {
        let came = 0;
        do {
            this.paging ??= this.page(all ? PAGE : FIRST_PAGE).finally(() => (this.paging = undefined));
            const now = await this.paging;
            came += now;
            if (now === 0) {
                break;
            }
        } while (all && this.transcript.more);
        return came;
    }

    /** Loads older messages until the one with this seq is here; returns whether it is. */
    async reach(seq: number): Promise<boolean> {
        await this.ready;
        while (this.transcript.more && this.transcript.upTo(seq) === 0) {
            if ((await this.older(false)) === 0) {
                return false;
            }
        }
        return this.transcript.upTo(seq) > 0;
    }

    private async page(limit: number): Promise<number> {
        const first = this.transcript.messages[0];
        if (this.state !== 'open' || !this.transcript.more || first === undefined) {
            return 0;
        }
        const mine = this.opening;
        try {
            const page = await this.host.wire.request<Page>('session/read', { sessionId: this.id, limit, before: first.seq });
            if (mine !== this.opening) {
                return 0;
            }
            const came = this.transcript.prepend(page);
            this.host.paint(this);
            return came;
        } catch (error) {
            this.host.failed('No older messages', failureOf(error));
            return 0;
        }
    }

    // Saying something

    /** Sends it now, or when the daemon is back. What cannot be sent goes back into the draft. */
    say(text: string): void {
        this.sayAll([{ text }]);
    }

    /** The same with the whole draft. */
    sayDraft(): void {
        this.sayAll(this.returned.take(this.draft.take()));
    }

    private sayAll(parts: Part[]): void {
        const said = parts.map(({ id, text }) => ({ id: id ?? this.host.newId(), text }));
        this.unsent.push(...said);
        for (const unsent of said) {
            this.host.outbox.keep(this.id, unsent);
        }
        if (this.state === 'gone') {
            this.host.failed('Not sent', new Failure('sessionNotFound', `${this.label} no longer exists`));
            this.takeBack();
        } else if (this.state === 'open') {
            for (const unsent of said) {
                void this.send(unsent);
            }
        } else if (this.state === 'lost') {
            this.host.wake().catch((error: unknown) => {
                this.host.failed('Not sent', failureOf(error));
                this.takeBack();
            });
        }
        this.host.paint(this);
    }

    private async send(unsent: Unsent): Promise<void> {
        const message = { id: unsent.id, role: 'user', content: unsent.text };
        try {
            const answer = await this.host.wire.request<Appended>('session/append', { sessionId: this.id, messages: [message] });
            this.sent(unsent, { ...message, seq: answer.messages[0].seq, timestamp: new Date().toISOString() });
        } catch (error) {
            this.notSent(unsent, failureOf(error));
        }
    }

    private sent(unsent: Unsent, message: Message): void {
        this.host.outbox.drop(this.id, unsent);
        if (this.remove(unsent)) {
            this.transcript.put(message);
            this.draft.touch();
            this.host.paint(this);
            if (this.unsent.length === 0) {
                this.host.allSent(this);
            }
        }
    }

    private notSent(unsent: Unsent, failure: Failure): void {
        // When the connection is back it is sent again, under the same id.
        if (failure.kind === 'disconnected' || !this.remove(unsent)) {
            return;
        }
        this.host.failed('Not sent', failure);
        this.putBack([unsent]);
        this.host.paint(this);
    }

    private remove(unsent: Unsent): boolean {
        const at = this.unsent.indexOf(unsent);
        if (at >= 0) {
            this.unsent.splice(at, 1);
        }
        return at >= 0;
    }

    /** Puts what could not be sent back into the draft. */
    private takeBack(): void {
        const back = this.unsent.splice(0);
        if (back.length > 0) {
            this.putBack(back);
        }
    }

    private putBack(back: Unsent[]): void {
        this.returned.add(back);
        this.draft.putBack(back.map((unsent) => unsent.text));
        for (const unsent of back) {
            this.host.outbox.drop(this.id, unsent);
        }
    }

    // Changing and leaving

    /** Changes what is known about the session. */
    async update(fields: object): Promise<SessionInfo> {
        const answer = await this.host.wire.request<{ session: SessionInfo }>('session/update', { sessionId: this.id, ...fields });
        this.transcript.inform(answer.session);
        this.host.paint(this);
        return answer.session;
    }

    /** It is no longer shown: the draft is kept, the session saved and no longer followed. */
    async leave(): Promise<void> {
        const following = this.state === 'open';
        if (following) {
            await this.draft.flush();
        }
        this.left = true;
        if (this.state !== 'open' && this.state !== 'opening') {
            return;
        }
        this.state = 'gone';
        const session = { sessionId: this.id };
        const saved = following ? this.host.wire.request('session/save', session) : Promise.resolve();
        const closed = this.host.wire.request('session/close', session);
        for (const done of await Promise.allSettled([saved, closed])) {
            const failure = done.status === 'rejected' ? failureOf(done.reason) : undefined;
            if (failure !== undefined && following && !['disconnected', 'sessionNotFound'].includes(failure.kind)) {
                this.host.failed(`${this.label} is not saved`, failure);
                break;
            }
        }
    }
}
