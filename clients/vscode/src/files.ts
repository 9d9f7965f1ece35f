// Session files that are open as files: outline, folding, hover, diagnostics and actions come from the daemon, only for the folders of its stores.

import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';
import { DocumentFilter, LanguageClient, Middleware } from 'vscode-languageclient/node';
import { Link } from './link';

const STORES = 'stores';

const FEATURES = [
    // Documents that are already open are reported when the first of these is registered, so the others come before it.
    'textDocument/didClose',
    'textDocument/didChange',
    'textDocument/didOpen',
    'textDocument/documentSymbol',
    'textDocument/foldingRange',
    'textDocument/hover',
    'textDocument/codeAction',
] as const;

function selector(folders: string[]): DocumentFilter[] {
    return folders.map((folder) => ({ scheme: 'file', pattern: { baseUri: vscode.Uri.file(folder).toString(), pattern: '**/*' } }));
}

/** Middleware between the editor and the daemon. */
export const middleware: Middleware = {
    provideWorkspaceSymbols: (query, token, next) => {
        const wanted = vscode.workspace.getConfiguration('sessiond').get<boolean>('workspaceSymbols', false);
        return wanted ? next(query, token) : [];
    },
};

export class Files implements vscode.Disposable {
    private readonly opened: vscode.Disposable;

    constructor(
        private readonly link: Link,
        private readonly storage: vscode.Memento,
        private readonly log: vscode.LogOutputChannel,
    ) {
        link.prepare = (client) => void this.serve(client);
        this.opened = vscode.workspace.onDidOpenTextDocument((document) => this.perhaps(document));
        vscode.workspace.textDocuments.forEach((document) => this.perhaps(document));
    }

    dispose(): void {
        this.opened.dispose();
    }

    /** A session file is a reason to connect. The folders of the stores are known from the last time. */
    private perhaps(document: vscode.TextDocument): void {
        const inStore = this.storage.get<string[]>(STORES, []).some((folder) => document.uri.fsPath.startsWith(`${folder}/`));
        if (document.uri.scheme === 'file' && inStore) {
            this.link.wake().catch((error: unknown) => this.log.warn(String(error)));
        }
    }

    private async serve(client: LanguageClient): Promise<void> {
        try {
            const status = await client.sendRequest<{ stores: { path: string }[] }>('daemon/status', {});
            const folders = status.stores.map((store) => store.path);
            await this.storage.update(STORES, folders);
            for (const method of FEATURES) {
                client.getFeature(method as never as 'textDocument/hover').register({
                    id: randomUUID(),
                    registerOptions: { documentSelector: selector(folders), syncKind: 1 } as { documentSelector: DocumentFilter[] },
                });
            }
        } catch (error) {
            this.log.warn(`session files get no outline and diagnostics: ${String(error)}`);
        }
    }
}
