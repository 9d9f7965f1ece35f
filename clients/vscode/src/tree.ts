// All sessions in a tree, grouped by day, tag or folder.

import * as vscode from 'vscode';
import { failureOf } from './core/failure';
import { Group, Grouping, groups } from './core/grouping';
import { SessionInfo, Sessions } from './core/protocol';
import { localTime } from './core/when';
import { counted, doing, title } from './core/words';
import { Link } from './link';
import { Rooms } from './rooms';

const PAGE = 200;
const SOON_MS = 300;

export type Node = { kind: 'group'; group: Group } | { kind: 'session'; session: SessionInfo; group: string } | { kind: 'more' };

/** Only the archived ones, only the deleted ones, or all others. */
export type Shown = 'current' | 'archived' | 'deleted';

const TITLES = { current: undefined, archived: 'archived', deleted: 'deleted' };

export class Tree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
    private readonly changed = new vscode.EventEmitter<void>();
    private readonly disposables: vscode.Disposable[] = [this.changed];
    private soon: NodeJS.Timeout | undefined;
    private pages = 1;
    private shown: Shown = 'current';
    readonly view: vscode.TreeView<Node>;
    readonly onDidChangeTreeData = this.changed.event;

    constructor(
        private readonly link: Link,
        private readonly rooms: Rooms,
    ) {
        this.view = vscode.window.createTreeView<Node>('sessiond.sessions', { treeDataProvider: this, showCollapseAll: true });
        this.disposables.push(
            this.view,
            this.view.onDidChangeVisibility(({ visible }) => visible && this.refreshSoon()),
            rooms.onPaint(() => this.refreshSoon()),
            link.onNotification(({ method }) => method === 'list/changed' && this.refreshSoon()),
            link.onState((state) => (state === 'up' || state === 'waiting') && this.refreshSoon()),
            vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration('sessiond.groupBy') && this.refresh()),
        );
    }

    dispose(): void {
        clearTimeout(this.soon);
        vscode.Disposable.from(...this.disposables).dispose();
    }

    refresh(): void {
        clearTimeout(this.soon);
        this.soon = undefined;
        this.changed.fire();
    }

    more(): void {
        this.pages += 1;
        this.refresh();
    }

    show(shown: Shown): void {
        this.shown = shown;
        this.pages = 1;
        this.view.description = TITLES[shown];
        void vscode.commands.executeCommand('setContext', 'sessiond.shown', shown);
        this.refresh();
    }

    /** Joins many changes in a moment. */
    private refreshSoon(): void {
        this.soon ??= setTimeout(() => this.refresh(), SOON_MS);
    }

    async getChildren(node?: Node): Promise<Node[]> {
        if (node !== undefined) {
            return node.kind === 'group' ? node.group.sessions.map((session) => ({ kind: 'session', session, group: node.group.key })) : [];
        }
        try {
            const { sessions, more } = await this.read();
            this.view.message = undefined;
            const grouping = vscode.workspace.getConfiguration('sessiond').get<Grouping>('groupBy', 'day');
            const found = groups(sessions, grouping, new Date());
            const nodes: Node[] =
                grouping === 'none'
                    ? sessions.map((session) => ({ kind: 'session', session, group: '' }))
                    : found.map((group) => ({ kind: 'group', group }));
            return more ? [...nodes, { kind: 'more' }] : nodes;
        } catch (error) {
            this.view.message = `The sessions cannot be shown: ${failureOf(error).said}`;
            return [];
        }
    }

    getTreeItem(node: Node): vscode.TreeItem {
        switch (node.kind) {
            case 'group':
                return groupItem(node.group);
            case 'session':
                return this.sessionItem(node.session, node.group);
            case 'more': {
                const item = new vscode.TreeItem('More…');
                item.iconPath = new vscode.ThemeIcon('ellipsis');
                item.command = { command: 'sessiond.more', title: 'More' };
                return item;
            }
        }
    }

    private async read(): Promise<{ sessions: SessionInfo[]; more: boolean }> {
        const filter = this.shown === 'current' ? {} : { [this.shown]: true };
        // Before the list, so that whatever comes after it is told, by one notification; then the tree reads, and asks, again.
        await this.link.request('session/listChanged', { tell: true });
        const sessions: SessionInfo[] = [];
        let cursor: string | null = null;
        for (let page = 0; page < this.pages; page += 1) {
            const answer: Sessions = await this.link.request<Sessions>('session/list', { limit: PAGE, filter, ...(cursor === null ? {} : { cursor }) });
            sessions.push(...answer.sessions);
            cursor = answer.nextCursor;
            if (cursor === null) {
                break;
            }
        }
        return { sessions, more: cursor !== null };
    }

    private sessionItem(session: SessionInfo, group: string): vscode.TreeItem {
        const item = new vscode.TreeItem(title(session));
        item.id = `${group}\n${session.sessionId}`;
        item.description = [doing(session.activity), String(session.messageCount), ...session.tags.map((tag) => `#${tag}`)].filter(Boolean).join(' ');
        item.tooltip = about(session);
        const open = this.rooms.get(session.sessionId) !== undefined;
        item.iconPath = new vscode.ThemeIcon(this.shown === 'deleted' ? 'trash' : session.archived ? 'archive' : open ? 'comment-discussion' : 'comment');
        item.contextValue = this.shown === 'deleted' ? 'deleted' : session.archived ? 'archived' : 'session';
        if (this.shown !== 'deleted') {
            item.command = { command: 'sessiond.open', title: 'Open', arguments: [session] };
        }
        return item;
    }
}

function groupItem(group: Group): vscode.TreeItem {
    const path = group.key.startsWith('/') ? group.key : undefined;
    const item = new vscode.TreeItem(path?.split('/').filter(Boolean).at(-1) ?? group.label, vscode.TreeItemCollapsibleState.Expanded);
    item.id = group.key;
    item.description = path ?? '';
    item.tooltip = `${group.label}: ${counted(group.sessions.length, 'session')}`;
    return item;
}

function about(session: SessionInfo): string {
    const rows = [
        session.name ?? '',
        session.sessionId,
        [doing(session.activity), session.activity?.text ?? ''].filter(Boolean).join(': '),
        `${counted(session.messageCount, 'message')}, last changed ${localTime(session.updatedAt)}`,
        session.model ?? '',
        session.tags.map((tag) => `#${tag}`).join(' '),
        session.cwd ?? '',
        session.summary ?? '',
    ];
    return rows.filter((row) => row !== '').join('\n');
}
