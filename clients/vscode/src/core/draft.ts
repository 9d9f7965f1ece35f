// What is being typed for a session and is not sent yet. The daemon keeps it in the session's state, so that it survives the editor.
//
// It is stored at most once a second, and not at all while a message is on its way: the typed text remains there until it is durable as a
// message.

import { Clock } from './clock';
import { Failure, failureOf } from './failure';

export const DRAFT_KEY = 'draft:vscode';
const EVERY_MS = 1000;

/** What a draft needs from its session and its editor. */
export interface DraftHost {
    /** Puts a value into the session's state; null removes it. */
    set(value: string | null): Promise<void>;
    /** The session is open and no message is on its way. */
    mayStore(): boolean;
    /** The text in the editor; undefined if no editor has a text that differs from the one last read. */
    text(): string | undefined;
    /** Shows this text in an editor. */
    show(text: string): void;
    /** The daemon has what the editor shows. */
    settled(): void;
    /** The daemon refuses it. Reported once, until it accepts it. */
    complain(failure: Failure): void;
}

/** Blanks alone are not worth keeping. */
function worth(text: string): string {
    return text.trim() === '' ? '' : text;
}

export class Draft {
    /** What the daemon has. */
    kept = '';
    /** The typed text when it was last read. */
    private typed = '';
    private storedAt = -EVERY_MS;
    private cancel: (() => void) | undefined;
    private storing: Promise<void> = Promise.resolve();
    private complained = false;
    /** Whether a text from an earlier run was looked for. */
    private restored = false;

    constructor(
        private readonly host: DraftHost,
        private readonly clock: Clock,
    ) {}

    /** The text as it is now. */
    text(): string {
        this.typed = worth(this.host.text() ?? this.typed);
        return this.typed;
    }

    /**
     * The session was opened. The first time, text typed in an earlier run comes back, unless there is other text or it was sent; later
     * the text here is the newer one.
     */
    opened(stored: unknown, lastSaid: unknown): void {
        this.kept = typeof stored === 'string' ? stored : '';
        if (!this.restored && this.kept !== '' && this.text() === '' && this.host.mayStore() && this.kept !== lastSaid) {
            this.replace(this.kept);
        } else {
            this.touch();
        }
        this.restored = true;
    }

    /** Another window changed it. Returns whether the editor should show that. */
    changed(stored: unknown): boolean {
        const follows = this.text() === this.kept;
        this.kept = typeof stored === 'string' ? stored : '';
        if (follows) {
            this.typed = this.kept;
        }
        return follows;
    }

    /** Puts unsent texts before what has been typed since. */
    putBack(texts: string[]): void {
        const now = this.text();
        this.replace([...texts, ...(now === '' ? [] : [now])].join('\n\n'));
    }

    /** Takes everything to send it. */
    take(): string {
        const text = this.text();
        this.replace('');
        return text;
    }

    /** The user discards what was typed since it was last stored: it is not stored, and withdrawn if storing is under way. */
    discard(): void {
        this.typed = this.kept;
        const going = this.storing;
        void going.catch(() => undefined).then(() => this.touch()); // the code that stores it complains
    }

    /** Something was typed (then this is the text now) or sent: the daemon gets it now, or when the second is over. */
    touch(typed?: string): void {
        this.typed = worth(typed ?? this.typed);
        const text = this.text();
        if (this.cancel !== undefined || !this.host.mayStore()) {
            return;
        }
        if (text === this.kept) {
            this.host.settled();
            return;
        }
        const wait = this.storedAt + EVERY_MS - this.clock.now();
        this.cancel = this.clock.later(Math.max(wait, 0), () => {
            this.cancel = undefined;
            this.keep().then(
                () => this.touch(),
                () => undefined, // already complained
            );
        });
    }

    /** Stores the present text when a second has passed since the last time; rejects if the daemon refuses it. */
    async keep(): Promise<void> {
        const before = this.storing.catch(() => undefined);
        const mine = before.then(() => this.store());
        this.storing = mine;
        await mine;
    }

    /** Stores without waiting for the second: the editor is being left. */
    async flush(): Promise<void> {
        this.storedAt = -EVERY_MS;
        if (this.host.mayStore()) {
            await this.keep().catch(() => undefined); // already complained
        }
    }

    private async store(): Promise<void> {
        const wait = this.storedAt + EVERY_MS - this.clock.now();
        if (wait > 0 && this.text() !== this.kept) {
            await new Promise<void>((resolve) => this.clock.later(wait, resolve));
        }
        const text = this.text();
        if (text === this.kept) {
            return;
        }
        this.storedAt = this.clock.now();
        try {
            await this.host.set(text === '' ? null : text);
        } catch (error) {
            const failure = failureOf(error);
            if (this.text() === this.kept) {
                return; // discarded meanwhile
            }
            // If the session was deleted meanwhile, that is reported, and the text remains in its editor.
            if (!['disconnected', 'sessionNotFound'].includes(failure.kind) && !this.complained) {
                this.complained = true;
                this.host.complain(failure);
            }
            throw failure;
        }
        this.kept = text;
        this.complained = false;
    }

    /** Shows this text instead. */
    replace(text: string): void {
        this.typed = worth(text);
        this.host.show(text);
        this.touch();
    }
}
