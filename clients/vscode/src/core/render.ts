// A transcript as a document to read: line 1 says what it is, then each message: a line with role and time, its text, an empty line.

import { Held, Transcript } from './transcript';
import { localTime } from './when';

export const MARK = '▌ ';

/** The place of a message: its first and last line (0 is the first of the document), and the ranges of its foldable parts. */
export interface Place {
    message: Held;
    start: number;
    end: number;
    folds: { start: number; end: number }[];
}

interface Block {
    lines: string[];
    folds: { start: number; end: number }[];
}

/** On one line, without control characters: text from a file or a model must not look like something else. */
export function oneLine(text: string): string {
    return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, ' ');
}

/** Lines as every editor counts them. A line that looks like the head of a message is indented by a blank. */
function split(text: string): string[] {
    return text.split(/\r\n|[\r\n\u2028\u2029]/).map((line) => (line.startsWith(MARK) ? ` ${line}` : line));
}

function json(value: unknown): string {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function head(message: Held): string {
    const by = typeof message.author === 'string' && message.author !== '' ? ` (${message.author})` : '';
    const parts = [message.role + by];
    if (message.toolCallId) {
        parts.push(`result of ${message.toolCallId}`);
    }
    parts.push(localTime(message.timestamp));
    if (message.status !== undefined && message.status !== 'done') {
        parts.push(message.status === 'streaming' ? '…' : message.status);
    }
    return MARK + oneLine(parts.join(' · '));
}

function body(content: Held['content']): string[] {
    if (typeof content === 'string') {
        return split(content);
    }
    return content.flatMap((block) => {
        const text = (block as { text?: unknown } | null)?.text;
        return typeof text === 'string' ? split(text) : [oneLine(json(block))];
    });
}

function rendered(message: Held): Block {
    const lines = [head(message)];
    const folds = [];
    if (typeof message.thinking === 'string' && message.thinking !== '') {
        const start = lines.length;
        lines.push(...split(message.thinking).map((line) => `> ${line}`));
        folds.push({ start, end: lines.length - 1 });
    }
    for (const line of body(message.content)) {
        lines.push(line);
    }
    for (const call of message.toolCalls ?? []) {
        lines.push(oneLine(`→ ${call.name ?? 'tool'}(${json(call.arguments ?? {})})`));
    }
    lines.push('');
    return { lines, folds: folds.filter((fold) => fold.end > fold.start) };
}

/** Renders one transcript repeatedly; unchanged parts are kept. */
export class Renderer {
    text = '';
    /** How many lines `text` has. */
    lines = 1;
    places: Place[] = [];
    private blocks = new WeakMap<Held, { version: number; block: Block }>();

    /** Brings `text` and `places` up to date. `note` says what is wrong with the session, if anything. */
    render(id: string, transcript: Transcript, note = ''): void {
        const lines = [this.top(id, transcript, note), ''];
        this.places = transcript.messages.map((message) => {
            const { lines: own, folds } = this.block(message);
            const start = lines.length;
            for (const line of own) {
                lines.push(line);
            }
            // The empty line after a message does not belong to it.
            const end = lines.length - 2;
            return { message, start, end, folds: folds.map((fold) => ({ start: start + fold.start, end: start + fold.end })) };
        });
        this.text = lines.join('\n');
        this.lines = lines.length;
    }

    /** The place of the message that a line belongs to, or the one before it. */
    at(line: number): Place | undefined {
        return this.places.findLast((place) => place.start <= line);
    }

    private block(message: Held): Block {
        const known = this.blocks.get(message);
        if (known !== undefined && known.version === message.version) {
            return known.block;
        }
        const block = rendered(message);
        this.blocks.set(message, { version: message.version, block });
        return block;
    }

    private top(id: string, transcript: Transcript, note: string): string {
        const info = transcript.info;
        const parts = [info?.name ? `${oneLine(info.name)} (${id})` : id];
        if (info !== undefined && info.tags.length > 0) {
            parts.push(oneLine(info.tags.map((tag) => `#${tag}`).join(' ')));
        }
        if (info?.archived) {
            parts.push('archived');
        }
        if (transcript.more) {
            parts.push(`${Math.max(transcript.count - transcript.messages.length, 1)} older messages are not shown`);
        }
        if (note !== '') {
            parts.push(note);
        }
        return `· ${parts.join(' · ')}`;
    }
}
