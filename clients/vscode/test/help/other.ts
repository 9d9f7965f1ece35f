// Another client of the same daemon: a relay of its own, spoken to without the extension.

import { ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createMessageConnection, MessageConnection, StreamMessageWriter } from 'vscode-jsonrpc/node';
import { failureOf } from '../../src/core/failure';
import { Wire } from '../../src/core/protocol';
import { LastWordsReader } from '../../src/core/reader';

export interface Heard {
    method: string;
    params: any;
}

export class Other implements Wire {
    readonly heard: Heard[] = [];
    private readonly child: ChildProcess;
    private readonly connection: MessageConnection;
    /** Called with every notification. */
    listener: (method: string, params: any) => void = () => undefined;
    /** Called when the relay has ended. */
    closed: () => void = () => undefined;

    constructor() {
        this.child = spawn('sessiond', ['--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] });
        this.child.stdin!.on('error', () => undefined); // a relay that died is heard of by its end
        this.connection = createMessageConnection(new LastWordsReader(this.child.stdout!), new StreamMessageWriter(this.child.stdin!));
        this.connection.onNotification((method, params) => {
            this.heard.push({ method, params });
            this.listener(method, params);
        });
        this.connection.onError(() => undefined);
        this.connection.onClose(() => {
            this.connection.dispose();
            this.closed();
        });
        this.connection.listen();
    }

    async request<T = any>(method: string, params: object): Promise<T> {
        try {
            return await this.connection.sendRequest<T>(method, params);
        } catch (error) {
            throw failureOf(error);
        }
    }

    async notify(method: string, params: object): Promise<void> {
        await this.connection.sendNotification(method, params);
    }

    append(sessionId: string, ...messages: object[]): Promise<any> {
        return this.request('session/append', { sessionId, messages });
    }

    /** The contents of all messages that the daemon has. */
    async contents(sessionId: string): Promise<unknown[]> {
        const page = await this.request('session/read', { sessionId });
        return page.messages.map((message: { content: unknown }) => message.content);
    }

    /** Ends as a crash would. */
    async kill(): Promise<void> {
        if (this.child.exitCode === null && this.child.signalCode === null) {
            const exit = once(this.child, 'exit');
            this.child.kill('SIGKILL');
            await exit;
        }
    }

    /** kill -9 the daemon; this client ends with it. */
    async killDaemon(): Promise<void> {
        const { pid } = await this.request('daemon/hello', {});
        const exit = once(this.child, 'exit');
        process.kill(pid, 'SIGKILL');
        await exit;
    }
}
