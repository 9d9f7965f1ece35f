// The suite inside the extension host of VS Code. SESSIOND_TESTS names the file to run (the others are left out), all of them without it;
// SESSIOND_GREP those tests of them whose names have this in them, SESSIOND_RESULT where the results go, one a line.

import { appendFileSync } from 'node:fs';
import Mocha from 'mocha';

const FILES: Record<string, () => Promise<unknown>> = {
    commands: () => import('./commands'),
    live: () => import('./live'),
    reconnect: () => import('./reconnect'),
    drafts: () => import('./drafts'),
    trouble: () => import('./trouble'),
    files: () => import('./files'),
    wire: () => import('./wire'),
};

export async function run(): Promise<void> {
    const result = process.env.SESSIOND_RESULT!;
    const grep = process.env.SESSIOND_GREP;
    const mocha = new Mocha({ ui: 'bdd', timeout: 120_000, reporter: class {} as never, ...(grep ? { grep } : {}) });
    for (const [name, load] of Object.entries(FILES)) {
        if (!process.env.SESSIOND_TESTS || process.env.SESSIOND_TESTS.split(' ').includes(name)) {
            mocha.suite.emit('pre-require', globalThis, name, mocha);
            await load();
        }
    }
    // What the window's console makes of a report is hard to read.
    const report = (line: string): void => appendFileSync(result, `${line}\n`);
    await new Promise<void>((resolve, reject) => {
        mocha
            .run((failures) => (failures === 0 ? resolve() : reject(new Error(`${failures} tests failed`))))
            .on('pass', (test) => report(`ok ${test.fullTitle()} (${test.duration} ms)`))
            .on('fail', (test, error) => report(`FAILED ${test.fullTitle()}\n${error.stack ?? String(error)}`));
    });
}
