// What the tests in the extension host share.

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { MARK } from '../../src/core/render';
import type { Parts } from '../../src/extension';
import { CHAT, documentOf, DRAFT } from '../../src/uris';
import { Other } from '../help/other';
import { wait } from '../help/wait';

export { wait };

let activated: Promise<Parts> | undefined;

/** The extension that is tested. */
export function parts(): Promise<Parts> {
    activated ??= Promise.resolve(vscode.extensions.getExtension<Parts>('sessiond.sessiond')!.activate());
    return activated;
}

const others: Other[] = [];

/** Another client of the same daemon; it ends with the test. */
export function other(): Other {
    const made = new Other();
    others.push(made);
    return made;
}

/** Every notification that was shown in this test. */
export const said: string[] = [];
const answers: { input: unknown[]; choice: unknown[]; save: unknown[] } = { input: [], choice: [], save: [] };
const { showErrorMessage, showWarningMessage, showInformationMessage, showInputBox, showQuickPick, showSaveDialog } = vscode.window;

/** What the person answers to the next input box, to the next list, to the next dialog for saving. */
export function willType(text: string | undefined): void {
    answers.input.push(text);
}

export function willChoose(label: string): void {
    answers.choice.push(label);
}

export function willSaveAs(uri: vscode.Uri): void {
    answers.save.push(uri);
}

function listen(): void {
    const heard = (text: string): Promise<undefined> => {
        said.push(text);
        return Promise.resolve(undefined);
    };
    const next = (from: unknown[], what: string): unknown => {
        assert.ok(from.length > 0, `nobody answers ${what}`);
        return from.shift();
    };
    Object.assign(vscode.window, {
        showErrorMessage: heard,
        showWarningMessage: heard,
        showInformationMessage: heard,
        showInputBox: ({ title }: vscode.InputBoxOptions) => Promise.resolve(next(answers.input, title!)),
        showQuickPick: (items: { label: string }[]) => {
            const label = next(answers.choice, 'a list');
            return Promise.resolve(items.find((item) => item.label === label));
        },
        showSaveDialog: () => Promise.resolve(next(answers.save, 'a dialog')),
    });
}

export const document = (id: string): vscode.TextDocument | undefined => documentOf(id, CHAT);
export const draft = (id: string): vscode.TextDocument | undefined => documentOf(id, DRAFT);

const lines = (id: string): string[] => document(id)?.getText().split('\n') ?? [];

export const heads = (id: string): string[] => lines(id).filter((line) => line.startsWith(MARK));

/** All lines of a conversation that somebody said. */
export const texts = (id: string): string[] =>
    lines(id)
        .slice(1)
        .filter((line) => line !== '' && !line.startsWith(MARK));

export async function shows(id: string, ...expected: string[]): Promise<void> {
    await wait(
        () => `${id} shows ${JSON.stringify(expected)}, not ${JSON.stringify(texts(id))}`,
        () => JSON.stringify(texts(id)) === JSON.stringify(expected),
    );
}

export async function hears(text: string): Promise<void> {
    await wait(
        () => `"${text}" is said, not ${JSON.stringify(said)}`,
        () => said.some((one) => one.includes(text)),
    );
}

/** The status bar, without its icon. */
export async function status(expected: string): Promise<void> {
    const { status } = await parts();
    const shown = (): string => status.item.text.replace(/\$\([a-z-]+\) /, '');
    await wait(
        () => `the status bar says "${expected}", not "${shown()}"`,
        () => shown() === expected,
    );
}

export const run = (command: string, ...args: unknown[]): Thenable<unknown> => vscode.commands.executeCommand(`sessiond.${command}`, ...args);

/** A new session with its conversation and draft open, as a person makes one; its id. */
export async function begin(name: string): Promise<string> {
    willType(name);
    await run('new');
    const { rooms } = await parts();
    await wait(() => `${name} is open: ${JSON.stringify(said)} ${rooms.current?.id} ${rooms.current?.state} ${rooms.current?.label}`, () => rooms.current?.state === 'open' && rooms.current.label === name);
    return rooms.current!.id;
}

/** A person at a list: sees what the window shows, which is later than what the extension asks for. To be made before the list is filled. */
export class Chooser<T extends vscode.QuickPickItem> {
    private active: readonly T[] = [];

    constructor(private readonly pick: vscode.QuickPick<T>) {
        pick.onDidChangeActive((items) => (this.active = items));
    }

    /** Presses Enter as soon as the window shows this entry as the one meant. */
    async accept(item: T): Promise<void> {
        this.pick.activeItems = [item];
        await wait('it is active', () => this.active[0] === item);
        await vscode.commands.executeCommand('workbench.action.acceptSelectedQuickOpenItem');
    }
}

/** Shows a session that somebody else made. */
export async function open(id: string): Promise<vscode.TextEditor> {
    const { chats, rooms } = await parts();
    const editor = await chats.show({ sessionId: id, name: null });
    await wait(`${id} is open`, () => rooms.get(id)?.state === 'open');
    return editor;
}

export async function type(id: string, text: string): Promise<void> {
    const { drafts, rooms } = await parts();
    const editor = await drafts.open(rooms.get(id)!);
    await editor.edit((edit) => edit.replace(new vscode.Range(0, 0, editor.document.lineCount, 0), text));
}

export async function say(id: string, text: string): Promise<void> {
    const { rooms } = await parts();
    rooms.get(id)!.say(text);
}

/** Talks to another relay from now on; undefined: to the real one again. */
export async function useRelay(command?: string[]): Promise<void> {
    const { link } = await parts();
    const settings = vscode.workspace.getConfiguration('sessiond');
    await settings.update('arguments', command?.slice(1), vscode.ConfigurationTarget.Global);
    await settings.update('path', command?.[0], vscode.ConfigurationTarget.Global);
    await wait('the setting is there', () => vscode.workspace.getConfiguration('sessiond').get('path') === (command?.[0] ?? 'sessiond'));
    // After those that the settings brought about.
    await link.restart().catch(() => undefined);
    said.length = 0;
}

/** Holds back the next request of this kind: `asked` settles when it is made, `give` lets it go on or refuses it. */
export async function held(method: string, refused: boolean): Promise<{ asked: Promise<void>; give: () => void }> {
    const { link } = await parts();
    const request = link.request.bind(link);
    let give!: () => void;
    const given = new Promise<void>((resolve) => (give = resolve));
    const asked = new Promise<void>((resolve) => {
        link.request = async <T>(name: string, params: object, token?: vscode.CancellationToken): Promise<T> => {
            if (name === method) {
                link.request = request;
                resolve();
                await given;
                if (refused) {
                    throw Object.assign(new Error('the disk is full'), { code: -31005, data: { kind: 'readOnly' } });
                }
            }
            return request<T>(name, params, token);
        };
    });
    return { asked, give };
}

/** The state of the session that the daemon keeps for our draft. */
export async function keptDraft(from: Other, sessionId: string): Promise<unknown> {
    return (await from.request('state/get', { sessionId })).values['draft:vscode'];
}

export async function closeAll(): Promise<void> {
    const { rooms, drafts } = await parts();
    const unsaved = (): vscode.TextDocument | undefined => vscode.workspace.textDocuments.find(({ uri, isDirty }) => uri.scheme === DRAFT && isDirty);
    await drafts.idle;
    for (let document = unsaved(); document !== undefined; document = unsaved()) {
        await vscode.window.showTextDocument(document);
        await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
    }
    await vscode.commands.executeCommand('workbench.action.closeAllEditors');
    await wait(
        () => `no session is open: ${rooms.all.map(({ id, state }) => `${id} ${state}`).join(', ')}`,
        () => rooms.size === 0,
    );
}

export function hooks(): void {
    before(listen);
    beforeEach(() => {
        said.length = 0;
        answers.input.length = answers.choice.length = answers.save.length = 0;
    });
    afterEach(async () => {
        await closeAll();
        await Promise.all(others.splice(0).map((one) => one.kill()));
    });
    after(() => {
        Object.assign(vscode.window, { showErrorMessage, showWarningMessage, showInformationMessage, showInputBox, showQuickPick, showSaveDialog });
    });
}
