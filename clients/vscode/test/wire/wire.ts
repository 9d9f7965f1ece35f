// Replays the wire transcript $SESSIOND_WIRE against a real daemon. Every client of it follows the sessions that it opens as the extension
// does; at the end each of them must hold what the daemon says.

import { Opened, Page } from '../../src/core/protocol';
import { Transcript } from '../../src/core/transcript';
import { Other } from '../help/other';
import { wait } from '../help/wait';
import { Player, Stage } from '../help/wire';

type Params = { sessionId?: string; messages?: object[]; since?: number; messageId?: string; text?: string; offset?: number; afterSeq?: number };

class Follower extends Other implements Player {
    readonly transcripts = new Map<string, Transcript>();

    constructor() {
        super();
        this.listener = (method, params) => {
            if (method === 'session/changed') {
                for (const change of params.changes) {
                    this.transcripts.get(params.sessionId)?.apply(change);
                }
            }
        };
    }

    override async kill(): Promise<void> {
        this.transcripts.clear();
        await super.kill();
    }

    override async request<T = any>(method: string, params: Params): Promise<T> {
        const result: any = await super.request(method, params);
        const transcript = this.transcripts.get(params.sessionId ?? '');
        if (method === 'session/new' && params.messages === undefined) {
            this.follow({ session: result.session, messages: [], state: {}, hasMore: false, warnings: [] });
        } else if (method === 'session/open' && params.since === undefined) {
            this.follow(result as Opened);
        } else if (transcript !== undefined) {
            await this.did(transcript, method, params, result);
        }
        return result as T;
    }

    /** What a client does itself is not told to it. */
    private async did(transcript: Transcript, method: string, params: Params, result: any): Promise<void> {
        const { messageId = '', text, offset = transcript.get(messageId)?.points, afterSeq } = params;
        switch (method) {
            case 'session/open':
                (result as Opened).changes?.forEach((change) => transcript.apply(change));
                break;
            case 'session/append': {
                const sent = new Set<string>(result.messages.map(({ id }: { id: string }) => id));
                const since = result.messages[0].seq - 1;
                const page = await super.request<Page>('session/read', { sessionId: params.sessionId!, since });
                page.messages.filter(({ id }) => sent.has(id)).forEach((message) => transcript.put(message));
                break;
            }
            case 'session/extend':
                transcript.apply({ kind: 'extended', seq: result.seq, messageId, text, offset });
                break;
            case 'session/finish':
                transcript.apply({ kind: 'finished', seq: result.seq, messageId });
                break;
            case 'session/clear':
                transcript.apply({ kind: 'cleared', seq: result.session.seq });
                break;
            case 'session/truncate':
                transcript.apply({ kind: 'truncated', seq: result.session.seq, afterSeq });
                break;
            case 'session/close':
            case 'session/delete':
                this.transcripts.delete(params.sessionId!);
                break;
        }
    }

    private follow(opened: Opened): void {
        const transcript = new Transcript();
        transcript.load(opened);
        this.transcripts.set(opened.session.sessionId, transcript);
    }
}

async function main(): Promise<void> {
    const followers: Follower[] = [];
    const stage = new Stage(() => {
        const follower = new Follower();
        followers.push(follower);
        return follower;
    });
    await stage.play(process.env.SESSIOND_WIRE!);
    const reader = new Other();
    let compared = 0;
    for (const follower of followers) {
        for (const [sessionId, transcript] of follower.transcripts) {
            const page = await reader.request<Page>('session/read', { sessionId }).catch(() => undefined);
            if (page !== undefined) {
                const shape = (messages: Page['messages']): unknown[] => messages.map(({ id, seq, content, status }) => ({ id, seq, content, status }));
                await wait(
                    () => `${JSON.stringify(shape(transcript.messages))} is ${JSON.stringify(shape(page.messages))}`,
                    () => JSON.stringify(shape(transcript.messages.map((message) => ({ ...message })))) === JSON.stringify(shape(page.messages)),
                );
                compared += 1;
            }
        }
    }
    await reader.kill();
    await stage.leave();
    console.log(`ok ${compared} compared`);
}

main().catch((error: unknown) => {
    console.error(error);
    process.exit(1);
});
