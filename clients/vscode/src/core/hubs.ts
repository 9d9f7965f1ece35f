// Whether shared stores are shared now.
//
// The hub of a shared store is where several machines meet. The daemon says in `daemon/status` whether it can be reached and how many
// changes wait here, and in `store/hubChanged` when that changes. It is asked once on each connection, and only when a session of another
// store than the default one is open: that one is never shared.

import { localDay, localTime } from './when';

export interface Hub {
    state: 'online' | 'offline';
    since?: string;
    pending?: number;
}

interface DaemonStatus {
    stores: { name: string; hub?: Hub }[];
}

export class Hubs {
    private readonly known = new Map<string, Hub>();
    private readonly told = new Set<string>();
    private asked = false;

    constructor(
        private readonly ask: () => Promise<DaemonStatus>,
        private readonly changed: () => void,
    ) {}

    /** A session is open. */
    need(sessionId: string): void {
        if (this.asked || storeOf(sessionId) === undefined) {
            return;
        }
        this.asked = true;
        this.ask().then(
            (status) => {
                for (const { name, hub } of status.stores) {
                    // What was told meanwhile is newer.
                    if (hub !== undefined && !this.told.has(name)) {
                        this.known.set(name, hub);
                    }
                }
                this.changed();
            },
            () => (this.asked = false), // the next session that is shown asks again
        );
    }

    heard(store: string, hub: Hub): void {
        this.told.add(store);
        this.known.set(store, hub);
        this.changed();
    }

    /** The connection is gone. */
    forget(): void {
        this.known.clear();
        this.told.clear();
        this.asked = false;
    }

    /** `shared`, `3 waiting` or `offline since 14:30, 3 waiting`; '' for a session that is not shared. */
    words(sessionId: string, now: Date): string {
        const hub = this.known.get(storeOf(sessionId) ?? '');
        if (hub === undefined) {
            return '';
        }
        const waiting = (hub.pending ?? 0) > 0 ? [`${hub.pending} waiting`] : [];
        if (hub.state === 'offline') {
            return [since(hub.since, now), ...waiting].join(', ');
        }
        return waiting[0] ?? 'shared';
    }
}

function since(stamp: string | undefined, now: Date): string {
    const shown = localTime(stamp).replace(`${localDay(now)} `, '');
    return shown === '' ? 'offline' : `offline since ${shown}`;
}

function storeOf(sessionId: string): string | undefined {
    const slash = sessionId.indexOf('/');
    return slash > 0 ? sessionId.slice(0, slash) : undefined;
}
