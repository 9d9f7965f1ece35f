// Programs on this machine: the one that sessiond is run by, and the tools that can go on with a session.

import { accessSync, constants, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

/** The program that runs as the relay. */
export interface Command {
    path: string;
    args: string[];
}

const RELAY = '--stdio';

/** A path in which `~/` at the beginning is the home. */
export function expanded(path: string): string {
    return path.startsWith('~/') ? join(homedir(), path.slice(2)) : path;
}

/** Another command of the program that the relay is started with: its arguments may name a module, a machine or a configuration. */
export function otherThanRelay(relay: Command, ...args: string[]): Command {
    return { path: expanded(relay.path), args: [...relay.args.filter((one) => one !== RELAY), ...args] };
}

/** Whether a shell that starts from here would find a program. */
export function isInstalled(name: string, path = process.env.PATH ?? ''): boolean {
    return path.split(delimiter).some((folder) => {
        const file = join(folder, name);
        try {
            accessSync(file, constants.X_OK);
            return statSync(file).isFile();
        } catch {
            return false; // it is not in this folder
        }
    });
}
