// Which documents are conversations and drafts: `sessiond:/sessiond-chat/ID/NAME` and `sessiond-draft:/sessiond-draft/ID/NAME`. NAME is only for
// the tab; the session is that of ID, whatever its present name is.

import * as vscode from 'vscode';
import { fileName, title } from './core/words';

export const CHAT = 'sessiond';
export const DRAFT = 'sessiond-draft';

type Named = { sessionId: string; name: string | null };

export function chatUri(session: Named): vscode.Uri {
    return vscode.Uri.from({ scheme: CHAT, path: `/sessiond-chat/${encodeURIComponent(session.sessionId)}/${fileName(title(session))}` });
}

export function draftUri(session: Named): vscode.Uri {
    const name = `To ${fileName(title(session))}`;
    return vscode.Uri.from({ scheme: DRAFT, path: `/sessiond-draft/${encodeURIComponent(session.sessionId)}/${name}` });
}

/** The session that a conversation or a draft belongs to. */
export function idOf(uri: vscode.Uri | undefined): string | undefined {
    if (uri?.scheme !== CHAT && uri?.scheme !== DRAFT) {
        return undefined;
    }
    const encoded = uri.path.split('/')[2] ?? '';
    try {
        return decodeURIComponent(encoded) || undefined;
    } catch {
        return undefined; // not one of our URIs
    }
}

/** What a tab shows, if it is a text. */
export function uriOfTab(tab: vscode.Tab): vscode.Uri | undefined {
    return tab.input instanceof vscode.TabInputText ? tab.input.uri : undefined;
}

/** All tabs of a session with this scheme, wherever they are. */
export function tabsOf(id: string, scheme: string): vscode.Tab[] {
    return vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => {
        const uri = uriOfTab(tab);
        return uri?.scheme === scheme && idOf(uri) === id;
    });
}

/** The document of a session with this scheme: the one that a tab shows, otherwise one that VS Code still keeps. */
export function documentOf(id: string, scheme: string): vscode.TextDocument | undefined {
    const shown = new Set(tabsOf(id, scheme).map((tab) => uriOfTab(tab)!.toString()));
    const all = vscode.workspace.textDocuments.filter((document) => document.uri.scheme === scheme && !document.isClosed && idOf(document.uri) === id);
    return all.find((document) => shown.has(document.uri.toString())) ?? all[0];
}
