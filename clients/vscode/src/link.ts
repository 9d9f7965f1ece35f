// The one connection to the daemon: a relay (`sessiond --stdio`), used through vscode-languageclient. Started when first needed, and again
// after every loss while it is wanted.

import { ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import * as vscode from 'vscode';
import { StreamMessageWriter } from 'vscode-jsonrpc/node';
import { CloseAction, DynamicFeature, ErrorAction, LanguageClient, LanguageClientOptions, RevealOutputChannelOn, StaticFeature } from 'vscode-languageclient/node';
import { Failure, failureOf } from './core/failure';
import { Command, expanded } from './core/program';
import { PROTOCOL, Wire } from './core/protocol';
import { LastWordsReader } from './core/reader';

const FIRST_DELAY_MS = 200;
const LAST_DELAY_MS = 10_000;
/** sysexits: no daemon could be reached or started. */
const UNREACHABLE = 69;
const STOP_MS = 2000;

/** Requests that change nothing, and may be repeated if the answer was lost with the connection. */
const READING = new Set(['daemon/status', 'session/list', 'session/search', 'session/read', 'session/export']);
const NOTIFICATIONS = ['session/changed', 'session/reloaded', 'session/resync', 'session/deleted', 'session/restored', 'session/saved', 'list/changed', 'store/hubChanged'];

/** `down`: no attempts; `waiting`: the next attempt follows by itself; `refused`: the daemon cannot be used. */
export type LinkState = 'down' | 'connecting' | 'up' | 'waiting' | 'refused';

/** LanguageClient without its own messages: we show each message once, in our words. */
class Client extends LanguageClient {
    private resolve!: () => void;
    /** Settled when the connection has ended and everything that belonged to it is cleaned up. */
    readonly ended = new Promise<void>((resolve) => (this.resolve = resolve));

    override registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
        // The daemon's commands are for editors without an extension; VS Code would reserve their names for one connection.
        if ((feature as Partial<DynamicFeature<unknown>>).registrationType?.method !== 'workspace/executeCommand') {
            super.registerFeature(feature as DynamicFeature<unknown>);
        }
    }

    override error(message: string, data?: unknown): void {
        super.error(message, data, false);
    }

    /** A connection that we close does not report its end. */
    override async stop(timeout?: number): Promise<void> {
        try {
            await super.stop(timeout);
        } finally {
            this.resolve();
        }
    }

    protected override async handleConnectionClosed(): Promise<void> {
        await super.handleConnectionClosed();
        this.resolve();
    }
}

function ask<T>(client: Client, method: string, params: object, token: vscode.CancellationToken | undefined): Promise<T> {
    // An undefined token would be taken for another param.
    return token === undefined ? client.sendRequest<T>(method, params) : client.sendRequest<T>(method, params, token);
}

async function spawned(command: Command, log: vscode.LogOutputChannel): Promise<ChildProcess> {
    const child = spawn(expanded(command.path), command.args, { stdio: 'pipe', env: process.env });
    // A relay that dies during a write ends the connection, which is how we notice.
    child.stdin.on('error', (error) => log.info(`the relay does not read its input: ${error.message}`));
    try {
        await once(child, 'spawn');
    } catch (error) {
        throw new Failure('noProgram', `program '${command.path}' not found`, 'install sessiond, or set sessiond.path', { cause: error });
    }
    return child;
}

export class Link implements Wire, vscode.Disposable {
    private readonly changedState = new vscode.EventEmitter<LinkState>();
    private readonly notifies = new vscode.EventEmitter<{ method: string; params: { sessionId?: string } }>();
    readonly onState = this.changedState.event;
    readonly onNotification = this.notifies.event;
    /** Whether the connection is wanted back when it is lost. */
    wanted: () => boolean = () => false;
    /** Called with every new connection before any other request. */
    prepare: (client: LanguageClient) => void = () => undefined;
    /** Why the last automatic attempt failed, reported once for each outage. */
    trouble: (failure: Failure) => void = () => undefined;
    /** For LanguageClient: middleware between it and the editor. */
    middleware: LanguageClientOptions['middleware'];
    private current: LinkState = 'down';
    private client: Client | undefined;
    private child: ChildProcess | undefined;
    private starting: Promise<Client> | undefined;
    private timer: NodeJS.Timeout | undefined;
    private restarting: Promise<void> = Promise.resolve();
    private failures = 0;
    private told = false;
    private disposed = false;

    constructor(
        /** How the settings say that the relay is started. */
        readonly command: () => Command,
        private readonly log: vscode.LogOutputChannel,
    ) {}

    get state(): LinkState {
        return this.current;
    }

    /** The relay's process, while one runs. */
    get pid(): number | undefined {
        return this.child?.pid;
    }

    /** Rejects with a Failure. Starts the connection if necessary. Requests that only read survive the end of one connection. */
    async request<T>(method: string, params: object, token?: vscode.CancellationToken): Promise<T> {
        try {
            const client = await this.connect();
            try {
                return await ask<T>(client, method, params, token);
            } catch (error) {
                if (!READING.has(method) || !(await this.lost(client))) {
                    throw error;
                }
                return await ask<T>(await this.connect(), method, params, token);
            }
        } catch (error) {
            throw failureOf(error);
        }
    }

    /** Connects now rather than when the next attempt is due. Rejects if that is useless. */
    async wake(): Promise<void> {
        try {
            await this.connect();
        } catch (error) {
            const failure = failureOf(error);
            if (failure.kind === 'noProgram' || failure.kind === 'refused') {
                throw failure;
            }
        }
    }

    /** Ends the present connection and connects again, after all earlier requests. Rejects if that is useless. */
    restart(): Promise<void> {
        const restarted = this.restarting.catch(() => undefined).then(async () => {
            await this.stop();
            await this.wake();
        });
        this.restarting = restarted;
        return restarted;
    }

    async stop(): Promise<void> {
        clearTimeout(this.timer);
        if (this.starting !== undefined) {
            this.child?.kill();
            await this.starting.catch(() => undefined); // its callers see the failure
        }
        const client = this.client;
        if (client !== undefined) {
            await client.stop(STOP_MS).catch((error: unknown) => this.log.warn(String(error)));
            this.ended(client);
        }
        clearTimeout(this.timer);
        this.child?.kill();
    }

    dispose(): void {
        this.disposed = true;
        clearTimeout(this.timer);
    }

    /** Whether this connection has ended. A request fails a moment before that is reported. */
    private async lost(client: Client): Promise<boolean> {
        await new Promise((resolve) => setImmediate(resolve));
        return this.client !== client && !this.disposed;
    }

    private connect(): Promise<Client> {
        if (this.client !== undefined) {
            return Promise.resolve(this.client);
        }
        clearTimeout(this.timer);
        this.starting ??= this.start().finally(() => (this.starting = undefined));
        return this.starting;
    }

    private async start(): Promise<Client> {
        this.change('connecting');
        try {
            const child = await spawned(this.command(), this.log);
            this.child = child;
            const client = this.newClient(child);
            try {
                await client.start();
                this.check(client);
            } catch (error) {
                child.kill();
                await Promise.all([client.ended, exited(child)]);
                throw child.exitCode === UNREACHABLE ? unreachable() : notUsable(error);
            }
            void client.ended.then(() => this.ended(client));
            this.client = client;
            this.failures = 0;
            this.told = false;
            this.prepare(client);
            this.change('up');
            return client;
        } catch (error) {
            const failure = failureOf(error);
            this.failed(failure);
            throw failure;
        }
    }

    private newClient(child: ChildProcess): Client {
        const transports = { reader: new LastWordsReader(child.stdout!), writer: new StreamMessageWriter(child.stdin!), detached: true };
        createInterface({ input: child.stderr! }).on('line', (line) => this.log.error(line));
        const client = new Client('sessiond', 'sessiond', () => Promise.resolve(transports), {
            // No documentSelector: only the daemon knows the folders of its stores, and so which files are sessions; see files.ts.
            outputChannel: this.log,
            revealOutputChannelOn: RevealOutputChannelOn.Never,
            middleware: this.middleware,
            initializationFailedHandler: () => false,
            errorHandler: {
                error: () => ({ action: ErrorAction.Continue, handled: true }),
                closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
            },
        });
        for (const method of NOTIFICATIONS) {
            client.onNotification(method, (params: { sessionId?: string }) => this.notifies.fire({ method, params }));
        }
        return client;
    }

    private check(client: Client): void {
        const experimental = client.initializeResult?.capabilities.experimental as { sessiond?: { protocolVersion?: number } } | undefined;
        const spoken = experimental?.sessiond?.protocolVersion ?? 0;
        if (spoken !== PROTOCOL) {
            const message = `the daemon speaks protocol ${spoken}, this extension ${PROTOCOL}`;
            throw new Failure('refused', message, 'update sessiond or the extension, then run `sessiond stop`');
        }
    }

    private ended(client: Client): void {
        if (this.client === client) {
            this.client = undefined;
            this.failed(undefined);
        }
    }

    /** There is no connection: it was lost (no failure), or could not be made. */
    private failed(failure: Failure | undefined): void {
        const again = failure?.kind !== 'refused' && failure?.kind !== 'noProgram' && !this.disposed && this.wanted();
        if (failure !== undefined && this.failures > 0 && !this.told) {
            this.told = true;
            this.trouble(failure);
        }
        this.failures += 1;
        this.change(failure?.kind === 'refused' ? 'refused' : again ? 'waiting' : 'down');
        if (again) {
            const delay = Math.min(FIRST_DELAY_MS * 2 ** Math.min(this.failures - 1, 10), LAST_DELAY_MS);
            this.timer = setTimeout(() => void this.connect().catch(() => undefined), delay); // `failed` has seen it
        }
    }

    private change(state: LinkState): void {
        if (this.current !== state) {
            this.current = state;
            this.log.info(`connection: ${state}`);
            this.changedState.fire(state);
        }
    }
}

async function exited(child: ChildProcess): Promise<void> {
    if (child.exitCode === null && child.signalCode === null) {
        await once(child, 'exit');
    }
}

function unreachable(): Failure {
    return new Failure('unreachable', 'no daemon could be reached or started', 'run `sessiond doctor`; so does the log');
}

function notUsable(error: unknown): Failure {
    const failure = failureOf(error);
    return failure.kind === 'disconnected' || failure.kind === 'refused' ? failure : new Failure('refused', failure.message, failure.hint);
}
