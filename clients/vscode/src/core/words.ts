// Small texts: a session's name, tags as typed, a selection as a message, a hit on one line.

import { Activity, Hit } from './protocol';
import { oneLine } from './render';

const SHOWN_ID = 26;

/** A session's name, or its id without the part that all ids share. */
export function title(session: { sessionId: string; name: string | null }): string {
    const name = oneLine(session.name ?? '').trim();
    return name || session.sessionId.replace(/(^|\/)session-/, '$1');
}

/** An id as it is shown beside a name: those that sessiond makes are whole. */
export function shortId(sessionId: string): string {
    return sessionId.length > SHOWN_ID ? `${sessionId.slice(0, SHOWN_ID)}…` : sessionId;
}

/** `waits: permission`, `works`; nothing if nothing goes on. */
export function doing(activity: Activity | undefined): string {
    if (activity === undefined) {
        return '';
    }
    if (activity.state !== 'waiting') {
        return 'works';
    }
    return activity.waitingFor === undefined ? 'waits' : `waits: ${oneLine(activity.waitingFor)}`;
}

/** What an agent asks, and which: `claude-code: Run make?`. */
export function asks(activity: Activity | undefined): string {
    return activity === undefined ? '' : oneLine(`${activity.client}: ${activity.text ?? activity.waitingFor ?? '?'}`);
}

export function counted(count: number, what: string): string {
    return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** Tags as typed: with blanks between them, in quotes if a tag contains a blank. */
export function typedTags(tags: string[]): string {
    return tags.map((tag) => (/[\s,]/.test(tag) ? `"${tag}"` : tag)).join(' ');
}

/** `one two -three "four five"`: tags to add to the present ones, and to remove from them. */
export function changedTags(tags: string[], typed: string): string[] {
    const changed = [...tags];
    for (const word of typed.match(/[-+#]*"[^"]*"|[^\s,]+/g) ?? []) {
        const tag = word.replace(/^[-+#]+/, '').replace(/^"(.*)"$/, '$1').trim();
        if (tag === '') {
            continue;
        }
        const at = changed.indexOf(tag);
        if (word.startsWith('-') && at >= 0) {
            changed.splice(at, 1);
        } else if (!word.startsWith('-') && at < 0) {
            changed.push(tag);
        }
    }
    return changed;
}

/** A piece of code as a message: fenced, with its language and where it comes from. `first`, `last`: lines, counted from 1. */
export function fenced(text: string, language: string, path: string, first: number, last: number): string {
    const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = '`'.repeat(longest + 1);
    const lines = first === last ? `${first}` : `${first}-${last}`;
    return `${path}:${lines}\n\n${fence}${language === 'plaintext' ? '' : language}\n${text.replace(/\n$/, '')}\n${fence}`;
}

/** A hit's snippet on one line, with the matches marked. `ranges` are code points. */
export function marked(hit: Pick<Hit, 'snippet' | 'ranges'>): string {
    const points = [...hit.snippet];
    const parts = [];
    let at = 0;
    for (const [start, end] of hit.ranges) {
        parts.push(points.slice(at, start).join(''), '«', points.slice(start, end).join(''), '»');
        at = end;
    }
    parts.push(points.slice(at).join(''));
    return oneLine(parts.join('')).replace(/ +/g, ' ').trim();
}

/** A file name that every system accepts. */
export function fileName(text: string): string {
    const clean = oneLine(text).replace(/[\\/:*?"<>|]+/g, '-').replace(/^[. ]+|[. ]+$/g, '');
    return clean.slice(0, 80).trim() || 'session';
}
