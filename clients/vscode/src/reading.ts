// Makes a conversation easy to read: outline, folding, coloured heads, and the way to older messages.

import * as vscode from 'vscode';
import { Chats } from './chats';
import { Place } from './core/render';
import { Rooms } from './rooms';
import { CHAT, documentOf, idOf } from './uris';

const TITLE = 80;

const KINDS: Record<string, vscode.SymbolKind> = {
    user: vscode.SymbolKind.Field,
    assistant: vscode.SymbolKind.Method,
    tool: vscode.SymbolKind.Function,
    system: vscode.SymbolKind.Constant,
};

const COLOURS: Record<string, string> = {
    user: 'charts.blue',
    assistant: 'charts.green',
    tool: 'charts.yellow',
};
const OTHER = 'descriptionForeground';

function titleOf(document: vscode.TextDocument, place: Place): string {
    for (let line = place.start + 1; line <= place.end && line < document.lineCount; line += 1) {
        const text = document.lineAt(line).text.trim();
        if (text !== '' && !text.startsWith('>')) {
            return text.length > TITLE ? `${text.slice(0, TITLE - 1)}…` : text;
        }
    }
    return '(no text)';
}

export class Reading implements vscode.DocumentSymbolProvider, vscode.FoldingRangeProvider, vscode.CodeLensProvider, vscode.Disposable {
    private readonly lensesChanged = new vscode.EventEmitter<void>();
    private readonly heads = new Map<string, vscode.TextEditorDecorationType>();
    private readonly disposables: vscode.Disposable[] = [this.lensesChanged];
    readonly onDidChangeCodeLenses = this.lensesChanged.event;

    constructor(
        private readonly chats: Chats,
        private readonly rooms: Rooms,
    ) {
        const selector = { scheme: CHAT };
        this.disposables.push(
            vscode.languages.registerDocumentSymbolProvider(selector, this, { label: 'sessiond' }),
            vscode.languages.registerFoldingRangeProvider(selector, this),
            vscode.languages.registerCodeLensProvider(selector, this),
            chats.onRead(() => this.lensesChanged.fire()),
            vscode.workspace.onDidChangeTextDocument(({ document }) => this.colour(document)),
            vscode.window.onDidChangeVisibleTextEditors((editors) => editors.forEach(({ document }) => this.colour(document))),
        );
        for (const [role, colour] of Object.entries({ ...COLOURS, '': OTHER })) {
            this.heads.set(role, head(colour));
        }
        this.disposables.push(...this.heads.values());
        vscode.window.visibleTextEditors.forEach(({ document }) => this.colour(document));
    }

    dispose(): void {
        vscode.Disposable.from(...this.disposables).dispose();
    }

    provideDocumentSymbols(document: vscode.TextDocument): vscode.DocumentSymbol[] {
        return this.places(document).map((place) => {
            const { message } = place;
            const range = new vscode.Range(place.start, 0, place.end, document.lineAt(place.end).text.length);
            const name = `${message.role}: ${titleOf(document, place)}`;
            const symbol = new vscode.DocumentSymbol(name, '', KINDS[message.role] ?? vscode.SymbolKind.String, range, document.lineAt(place.start).range);
            for (const call of message.toolCalls ?? []) {
                symbol.children.push(new vscode.DocumentSymbol(call.name || 'tool', '', vscode.SymbolKind.Function, range, document.lineAt(place.end).range));
            }
            return symbol;
        });
    }

    provideFoldingRanges(document: vscode.TextDocument): vscode.FoldingRange[] {
        return this.places(document).flatMap((place) => {
            const parts = place.folds.map(({ start, end }) => new vscode.FoldingRange(start, end, vscode.FoldingRangeKind.Comment));
            return place.end > place.start ? [new vscode.FoldingRange(place.start, place.end), ...parts] : parts;
        });
    }

    provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
        const room = this.rooms.get(idOf(document.uri));
        if (room === undefined || !room.transcript.more) {
            return [];
        }
        const top = new vscode.Range(0, 0, 0, 0);
        return [
            new vscode.CodeLens(top, { title: '$(arrow-up) Show older messages', command: 'sessiond.older', arguments: [room.id] }),
            new vscode.CodeLens(top, { title: 'Show all', command: 'sessiond.olderAll', arguments: [room.id] }),
        ];
    }

    /** The places that the document has lines for: it may be a moment behind. */
    private places(document: vscode.TextDocument): Place[] {
        return (this.chats.rendered(document.uri)?.places ?? []).filter((place) => place.end < document.lineCount);
    }

    private colour(document: vscode.TextDocument): void {
        const id = document.uri.scheme === CHAT ? idOf(document.uri) : undefined;
        if (id === undefined || documentOf(id, CHAT) === undefined) {
            return;
        }
        const ranges = new Map<string, vscode.Range[]>([...this.heads.keys()].map((role) => [role, []]));
        for (const place of this.places(document)) {
            (ranges.get(place.message.role) ?? ranges.get('')!).push(document.lineAt(place.start).range);
        }
        for (const editor of vscode.window.visibleTextEditors.filter((one) => one.document === document)) {
            for (const [role, type] of this.heads) {
                editor.setDecorations(type, ranges.get(role)!);
            }
        }
    }
}

function head(colour: string): vscode.TextEditorDecorationType {
    return vscode.window.createTextEditorDecorationType({
        isWholeLine: true,
        fontWeight: 'bold',
        color: new vscode.ThemeColor(colour),
        backgroundColor: new vscode.ThemeColor('editor.inactiveSelectionBackground'),
        overviewRulerColor: new vscode.ThemeColor(colour),
        overviewRulerLane: vscode.OverviewRulerLane.Right,
    });
}
