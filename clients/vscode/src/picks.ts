// Choosing: one of all sessions, or one of the hits of a search.

import * as vscode from 'vscode';
import { failureOf } from './core/failure';
import { Hit, Hits, SessionInfo, Sessions } from './core/protocol';
import { localTime } from './core/when';
import { counted, doing, marked, shortId, title } from './core/words';
import { Link } from './link';

const LIST_PAGE = 500;
const HITS = 50;
const DEBOUNCE_MS = 150;

interface SessionItem extends vscode.QuickPickItem {
    session: SessionInfo;
}

function sessionItem(session: SessionInfo): SessionItem {
    const tags = session.tags.map((tag) => `#${tag}`).join(' ');
    return {
        label: title(session),
        description: [doing(session.activity), localTime(session.updatedAt), counted(session.messageCount, 'message'), tags, session.name && shortId(session.sessionId)].filter(Boolean).join(' · '),
        session,
    };
}

/** Lets the user choose a session; undefined if none was chosen. The list fills page by page. */
export function pickSession(link: Link, failed: (error: unknown) => void, placeholder: string): Promise<SessionInfo | undefined> {
    const pick = vscode.window.createQuickPick<SessionItem>();
    pick.placeholder = placeholder;
    pick.matchOnDescription = true;
    pick.matchOnDetail = true;
    pick.busy = true;
    let open = true;
    const fill = async (): Promise<void> => {
        let cursor: string | null = null;
        do {
            const page: Sessions = await link.request<Sessions>('session/list', { limit: LIST_PAGE, ...(cursor === null ? {} : { cursor }) });
            cursor = page.nextCursor;
            pick.items = [...pick.items, ...page.sessions.map(sessionItem)];
        } while (cursor !== null && open);
        pick.busy = false;
    };
    return new Promise((resolve) => {
        pick.onDidAccept(() => {
            resolve(pick.selectedItems[0]?.session);
            pick.hide();
        });
        pick.onDidHide(() => {
            open = false;
            resolve(undefined);
            pick.dispose();
        });
        fill().catch((error: unknown) => {
            failed(error);
            pick.hide();
        });
        pick.show();
    });
}

interface HitItem extends vscode.QuickPickItem {
    hit?: Hit;
}

function hitItem(hit: Hit): HitItem {
    return {
        label: title(hit),
        description: [hit.role ?? 'name', localTime(hit.timestamp)].join(' · '),
        detail: marked(hit) || '(no text)',
        // The daemon has decided what fits; VS Code's own filter does not know phrases or `role:`.
        alwaysShow: true,
        hit,
    };
}

/** A search over all sessions, as you type. */
export class SearchPick {
    readonly pick = vscode.window.createQuickPick<HitItem>();
    private readonly regexButton: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon('regex'), tooltip: 'Regular expression: on or off' };
    private regex = false;
    private timer: NodeJS.Timeout | undefined;
    private running: vscode.CancellationTokenSource | undefined;

    constructor(
        private readonly link: Link,
        private readonly chosen: (hit: Hit) => void,
    ) {
        this.pick.placeholder = 'Words, "a phrase", wor*, -without, role:assistant, tag:work, before:2026-01-31';
        this.pick.buttons = [this.regexButton];
        this.pick.onDidChangeValue(() => this.later());
        this.pick.onDidTriggerButton(() => {
            this.regex = !this.regex;
            this.title();
            this.later();
        });
        this.pick.onDidAccept(() => {
            const hit = this.pick.selectedItems[0]?.hit;
            if (hit !== undefined) {
                this.pick.hide();
                this.chosen(hit);
            }
        });
        this.pick.onDidHide(() => {
            clearTimeout(this.timer);
            this.running?.cancel();
            this.pick.dispose();
        });
        this.title();
    }

    show(query = ''): void {
        this.pick.value = query;
        this.pick.show();
        this.later();
    }

    private title(words?: string): void {
        this.pick.title = [this.regex ? 'Search by regular expression' : 'Search', words].filter(Boolean).join(': ');
    }

    private later(): void {
        clearTimeout(this.timer);
        this.running?.cancel();
        this.timer = setTimeout(() => void this.search(), DEBOUNCE_MS);
    }

    private async search(): Promise<void> {
        const query = this.pick.value;
        if (query.trim() === '') {
            this.pick.items = [];
            this.pick.busy = false;
            this.title();
            return;
        }
        const mine = new vscode.CancellationTokenSource();
        this.running = mine;
        this.pick.busy = true;
        try {
            const mode = this.regex ? 'regex' : 'text';
            const answer = await this.link.request<Hits>('session/search', { query, mode, limit: HITS }, mine.token);
            if (!mine.token.isCancellationRequested) {
                this.pick.items = answer.hits.map(hitItem);
                this.title(counted(answer.total, 'hit') + (answer.incomplete ? ', more to come: the index is being rebuilt' : ''));
            }
        } catch (error) {
            if (!mine.token.isCancellationRequested) {
                this.pick.items = [];
                this.title(failureOf(error).said);
            }
        } finally {
            if (!mine.token.isCancellationRequested) {
                this.pick.busy = false;
            }
            mine.dispose();
        }
    }
}
