// Messages for the user, as notifications of VS Code and in the log. The same message is not shown twice in a
// moment.

import * as vscode from 'vscode';
import { Failure } from './core/failure';

const AGAIN_AFTER_MS = 3000;
const STATUS_MS = 5000;

const LOG = 'Show Log';
const SETTINGS = 'Open Settings';

export class Tell {
    private last = { text: '', at: 0 };

    constructor(private readonly log: vscode.LogOutputChannel) {}

    /** Something that the user requested failed. `doing` names it. */
    failed(doing: string, failure: Failure): void {
        const text = `${doing}: ${failure.said}`;
        this.log.error(text);
        const action = failure.kind === 'noProgram' ? SETTINGS : LOG;
        if (this.fresh(text)) {
            void vscode.window.showErrorMessage(text, action).then((chosen) => this.chosen(chosen));
        }
    }

    warn(text: string): void {
        this.log.warn(text);
        if (this.fresh(text)) {
            void vscode.window.showWarningMessage(text);
        }
    }

    /** A short message in the status bar. */
    info(text: string): void {
        this.log.info(text);
        vscode.window.setStatusBarMessage(text, STATUS_MS);
    }

    private fresh(text: string): boolean {
        const now = Date.now();
        const again = this.last.text === text && now - this.last.at < AGAIN_AFTER_MS;
        this.last = { text, at: now };
        return !again;
    }

    private chosen(action: string | undefined): void {
        if (action === LOG) {
            this.log.show();
        } else if (action === SETTINGS) {
            void vscode.commands.executeCommand('workbench.action.openSettings', 'sessiond.path');
        }
    }
}
