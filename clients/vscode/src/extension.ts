// Puts the parts together.

import * as vscode from 'vscode';
import { Chats } from './chats';
import { Commands } from './commands';
import { failureOf } from './core/failure';
import { Drafts } from './drafts';
import { Files, middleware } from './files';
import { Link } from './link';
import { Reading } from './reading';
import { Rooms } from './rooms';
import { Status } from './status';
import { Tell } from './tell';
import { Tree } from './tree';

/** What a test can look at. */
export interface Parts {
    link: Link;
    rooms: Rooms;
    chats: Chats;
    drafts: Drafts;
    tree: Tree;
    status: Status;
    commands: Commands;
}

let running: Parts | undefined;

export function activate(context: vscode.ExtensionContext): Parts {
    const log = vscode.window.createOutputChannel('sessiond', { log: true });
    const tell = new Tell(log);
    const link = new Link(() => {
        const settings = vscode.workspace.getConfiguration('sessiond');
        return { path: settings.get('path', 'sessiond'), args: settings.get('arguments', ['--stdio']) };
    }, log);
    const rooms = new Rooms(link, tell, context.globalState);
    const chats = new Chats(rooms);
    const drafts = new Drafts(rooms, log);
    const tree = new Tree(link, rooms);
    const status = new Status(rooms, link);
    const commands = new Commands(link, rooms, chats, drafts, tree, tell, log);
    link.middleware = middleware;
    link.wanted = () => rooms.size > 0 || tree.view.visible;
    link.trouble = (failure) => tell.failed('The connection to the daemon was lost', failure);
    const files = new Files(link, context.globalState, log);
    context.subscriptions.push(log, link, rooms, chats, drafts, tree, status, files, new Reading(chats, rooms), commands.register());
    context.subscriptions.push(
        vscode.workspace.onDidChangeConfiguration((event) => {
            if (event.affectsConfiguration('sessiond.path') || event.affectsConfiguration('sessiond.arguments')) {
                link.restart().catch((error: unknown) => tell.failed('No connection', failureOf(error)));
            }
        }),
    );
    rooms.sendWhatWaits();
    running = { link, rooms, chats, drafts, tree, status, commands };
    return running;
}

/** VS Code waits a few seconds for this. */
export async function deactivate(): Promise<void> {
    await running?.rooms.leaveAll();
    await running?.link.stop();
    running = undefined;
}
