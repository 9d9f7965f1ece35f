// What is known about one session: its newest messages without a gap, and everything that happened to them. Has neither an editor
// nor a connection.
//
// Changes may arrive twice, and our own messages before or after those of others: nothing is shown twice, nothing is lost.

import { Change, Message, Opened, Page, SessionInfo } from './protocol';

/** A message as stored here: `points` is the length of a text in code points (-1: no text), `version` grows with every change of it. */
export interface Held extends Message {
    points: number;
    version: number;
}

/** The effect of a change: nothing new, something to paint again, or something that requires reading everything again. */
export type Effect = 'none' | 'paint' | 'read';

function codePoints(value: string): number {
    let count = 0;
    for (let at = 0; at < value.length; at += value.codePointAt(at)! > 0xffff ? 2 : 1) {
        count += 1;
    }
    return count;
}

/** The text after its first `count` code points. */
function after(value: string, count: number): string {
    let at = 0;
    for (let left = count; left > 0 && at < value.length; left -= 1) {
        at += value.codePointAt(at)! > 0xffff ? 2 : 1;
    }
    return value.slice(at);
}

function hold(message: Message): Held {
    return { ...message, points: typeof message.content === 'string' ? codePoints(message.content) : -1, version: 0 };
}

export class Transcript {
    info: SessionInfo | undefined;
    /** Oldest first, by seq. */
    messages: Held[] = [];
    /** How many messages the session has, loaded or not. */
    count = 0;
    /** All changes of others up to this one are included. */
    seq = 0;
    /** Whether there are older messages than the first one here. */
    more = false;
    private byId = new Map<string, Held>();
    /** Messages with a seq between these were cleared or truncated; a late answer does not bring them back. */
    private gone: [number, number][] = [];

    /** Starts again with the answer to `session/open`. */
    load(opened: Opened): void {
        this.seq = opened.session.seq;
        this.more = opened.hasMore;
        this.gone = [];
        this.messages = opened.messages.map(hold);
        this.byId = new Map(this.messages.map((message) => [message.id, message]));
        this.inform(opened.session);
    }

    /** The latest SessionInfo from the daemon. */
    inform(info: SessionInfo): void {
        this.info = info;
        this.count = info.messageCount;
        for (let index = this.messages.length - 1; index >= 0 && this.messages[index].seq > info.seq; index -= 1) {
            this.count += 1;
        }
    }

    get(id: string): Held | undefined {
        return this.byId.get(id);
    }

    /** Takes in a page of older messages; returns how many were new. */
    prepend(page: Page): number {
        const first = this.messages[0]?.seq ?? Infinity;
        const older = page.messages.filter((message) => message.seq < first && !this.byId.has(message.id)).map(hold);
        for (const message of older) {
            this.byId.set(message.id, message);
        }
        this.messages = older.concat(this.messages);
        this.more = page.hasMore;
        return older.length;
    }

    /** How many of the messages here have this seq or a smaller one. */
    upTo(seq: number): number {
        let low = 0;
        let high = this.messages.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.messages[middle].seq <= seq) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /** Takes in a message that the daemon has made durable. */
    put(message: Message): Effect {
        const known = this.byId.has(message.id);
        const removed = this.gone.some(([from, to]) => from < message.seq && message.seq < to);
        if (known || removed || (this.more && this.messages.length > 0 && message.seq < this.messages[0].seq)) {
            return 'none';
        }
        const held = hold(message);
        this.byId.set(held.id, held);
        this.messages.splice(this.upTo(held.seq), 0, held);
        if (this.info === undefined || held.seq > this.info.seq) {
            this.count += 1;
        }
        return 'paint';
    }

    /** Takes in a change from the daemon. */
    apply(change: Change): Effect {
        const fresh = change.seq > this.seq;
        const effect = this.applied(change, fresh);
        this.seq = Math.max(this.seq, change.seq);
        return effect;
    }

    private applied(change: Change, fresh: boolean): Effect {
        switch (change.kind) {
            case 'appended':
                return (change.messages ?? []).map((message) => this.put(message)).includes('paint') ? 'paint' : 'none';
            case 'extended':
                return this.extend(change, fresh);
            case 'finished':
                return this.finish(change);
            case 'updated':
                if (!fresh || change.session === undefined) {
                    return 'none';
                }
                this.inform(change.session);
                return 'paint';
            case 'cleared':
                return fresh ? this.cut(-1, change.seq) : 'none';
            case 'truncated':
                return fresh ? this.cut(change.afterSeq ?? 0, change.seq) : 'none';
            default:
                return 'none';
        }
    }

    private extend(change: Change, fresh: boolean): Effect {
        const message = this.byId.get(change.messageId ?? '');
        if (message === undefined) {
            return 'none';
        }
        if (change.offset === undefined && !fresh) {
            return 'none';
        }
        const known = change.offset === undefined ? 0 : message.points - change.offset;
        if (message.points < 0 || known < 0) {
            return 'read';
        }
        const text = after(change.text ?? '', known);
        if (text === '') {
            return 'none';
        }
        message.content = (message.content as string) + text;
        message.points += codePoints(text);
        message.version += 1;
        return 'paint';
    }

    private finish(change: Change): Effect {
        const message = this.byId.get(change.messageId ?? '');
        if (message === undefined) {
            return 'none';
        }
        message.status = change.status ?? 'done';
        message.toolCalls = change.toolCalls ?? message.toolCalls;
        message.version += 1;
        return 'paint';
    }

    /** Removes the messages after the seq `from`; this happened at the seq `at`. */
    private cut(from: number, at: number): Effect {
        this.gone.push([from, at]);
        const kept = this.upTo(from);
        if (kept === 0 && from >= 0 && this.more) {
            return 'read';
        }
        const removed = this.messages.splice(kept);
        for (const message of removed) {
            this.byId.delete(message.id);
        }
        this.more = this.more && from >= 0;
        this.count = from < 0 ? 0 : this.count - removed.length;
        return 'paint';
    }
}
