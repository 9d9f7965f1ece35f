// The wire transcripts in $SESSIOND_WIRE over the extension's own connection layer, each with a daemon of its own.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as vscode from 'vscode';
import { Link } from '../../src/link';
import { Heard } from '../help/other';
import { Player, Stage } from '../help/wire';
import { hooks } from './help';

class LinkPlayer implements Player {
    readonly heard: Heard[] = [];
    private readonly log = vscode.window.createOutputChannel('wire', { log: true });
    private readonly link = new Link(() => ({ path: 'sessiond', args: ['--stdio'] }), this.log);

    constructor() {
        this.link.onNotification((one) => this.heard.push(one));
    }

    request(method: string, params: object): Promise<unknown> {
        return this.link.request(method, params);
    }

    async notify(method: string): Promise<void> {
        throw new Error(`${method}: the extension sends no notifications of its own`);
    }

    async kill(): Promise<void> {
        process.kill(this.link.pid!, 'SIGKILL');
        this.link.dispose();
        this.log.dispose();
    }
}

describe('wire', () => {
    hooks();

    for (const path of (process.env.SESSIOND_WIRE ?? '').split(' ').filter(Boolean)) {
        it(`the daemon answers as ${path.split('/').at(-1)} says`, async () => {
            const home = mkdtempSync(join(tmpdir(), 'sd-'));
            const ours = process.env.SESSIOND_HOME;
            process.env.SESSIOND_HOME = home;
            try {
                const stage = new Stage(() => new LinkPlayer());
                await stage.play(path);
                await stage.leave();
            } finally {
                execFileSync('sessiond', ['stop']);
                process.env.SESSIOND_HOME = ours;
                rmSync(home, { recursive: true });
            }
        });
    }
});
