// The status bar: the current session, how many messages it has, and what is wrong.

import * as vscode from 'vscode';
import { Hub, Hubs } from './core/hubs';
import { title } from './core/words';
import { Link } from './link';
import { Rooms } from './rooms';
import { CHAT, DRAFT, idOf } from './uris';

const STATES = { opening: ' …', open: '', lost: ' offline', gone: ' gone' };

export class Status implements vscode.Disposable {
    readonly item = vscode.window.createStatusBarItem('sessiond.session', vscode.StatusBarAlignment.Left, 10);
    private readonly disposables: vscode.Disposable[];
    private readonly hubs: Hubs;

    constructor(
        private readonly rooms: Rooms,
        private readonly link: Link,
    ) {
        this.item.name = 'sessiond';
        this.hubs = new Hubs(
            () => link.request('daemon/status', {}),
            () => this.update(),
        );
        this.disposables = [
            this.item,
            rooms.onPaint(() => this.update()),
            link.onState((state) => {
                if (state !== 'up') {
                    this.hubs.forget();
                }
                this.update();
            }),
            link.onNotification(({ method, params }) => {
                if (method === 'store/hubChanged') {
                    const { store, hub } = params as unknown as { store: string; hub: Hub };
                    this.hubs.heard(store, hub);
                }
            }),
            vscode.window.onDidChangeActiveTextEditor(() => this.update()),
        ];
        this.update();
    }

    dispose(): void {
        vscode.Disposable.from(...this.disposables).dispose();
    }

    private update(): void {
        const room = this.rooms.current;
        const scheme = vscode.window.activeTextEditor?.document.uri.scheme;
        const away = this.link.state === 'refused' || this.link.state === 'waiting';
        void vscode.commands.executeCommand('setContext', 'sessiond.here', room !== undefined);
        void vscode.commands.executeCommand('setContext', 'sessiond.following', (scheme === CHAT || scheme === DRAFT) && idOf(vscode.window.activeTextEditor?.document.uri) !== undefined);
        if (room === undefined) {
            this.item.text = '$(debug-disconnect) sessiond';
            this.item.tooltip = 'The daemon is not connected. Click to connect now.';
            this.item.command = 'sessiond.reconnect';
            if (away) {
                this.item.show();
            } else {
                this.item.hide();
            }
            return;
        }
        if (room.state === 'open') {
            this.hubs.need(room.id);
        }
        const shared = this.hubs.words(room.id, new Date());
        const unsent = room.unsent.length > 0 ? ` ${room.unsent.length} unsent` : '';
        const icon = room.state === 'lost' ? 'debug-disconnect' : 'comment-discussion';
        const name = title({ sessionId: room.id, name: room.info?.name ?? null }).replace(/\$\(/g, '$ (');
        this.item.text = `$(${icon}) ${name}:${room.transcript.count}${STATES[room.state]}${unsent}${shared === '' ? '' : ` ${shared}`}`;
        this.item.tooltip = room.state === 'lost' ? 'The daemon is not connected. Click to connect now.' : `${room.id}: go to another session`;
        this.item.command = room.state === 'lost' ? 'sessiond.reconnect' : 'sessiond.switch';
        this.item.backgroundColor = room.state === 'lost' || room.state === 'gone' ? new vscode.ThemeColor('statusBarItem.warningBackground') : undefined;
        this.item.show();
    }
}
