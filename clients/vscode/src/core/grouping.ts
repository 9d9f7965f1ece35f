// Sessions in groups, as the tree shows them.

import { SessionInfo } from './protocol';
import { dayName } from './when';

export type Grouping = 'day' | 'tag' | 'folder' | 'none';

export interface Group {
    /** Remains the same when the tree is read again. */
    key: string;
    label: string;
    sessions: SessionInfo[];
}

const NO_TAG = 'Without a tag';
const NO_FOLDER = 'Without a folder';

function keysOf(session: SessionInfo, grouping: Grouping, now: Date): string[] {
    switch (grouping) {
        case 'day':
            return [dayName(session.updatedAt, now)];
        case 'tag':
            return session.tags.length > 0 ? session.tags : [NO_TAG];
        case 'folder':
            return [session.cwd ?? NO_FOLDER];
        case 'none':
            return [''];
    }
}

/** Days in the order of the sessions (newest first), tags and folders by name, those without one last. A session with two tags is in two groups. */
export function groups(sessions: SessionInfo[], grouping: Grouping, now: Date): Group[] {
    const found = new Map<string, Group>();
    for (const session of sessions) {
        for (const key of keysOf(session, grouping, now)) {
            const group = found.get(key) ?? { key, label: key, sessions: [] };
            found.set(key, group);
            group.sessions.push(session);
        }
    }
    const all = [...found.values()];
    if (grouping === 'tag' || grouping === 'folder') {
        const last = (group: Group): number => (group.key === NO_TAG || group.key === NO_FOLDER ? 1 : 0);
        all.sort((one, other) => last(one) - last(other) || one.label.localeCompare(other.label));
    }
    return all;
}
