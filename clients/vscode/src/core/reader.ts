// Reads a relay's output to its end.

import { DataCallback, Disposable, StreamMessageReader } from 'vscode-jsonrpc/node';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Reports the end of its stream when everything before it has been handled. The library reports it at once, and a connection that is
 * closed then drops answers: the caller of a daemon that answers and ends would see a lost connection.
 */
export class LastWordsReader extends StreamMessageReader {
    /** A connection handles one message in each turn of the event loop. */
    private handled: Promise<void> = Promise.resolve();

    override listen(callback: DataCallback): Disposable {
        return super.listen((message) => {
            callback(message);
            this.handled = this.handled.then(turn);
        });
    }

    protected override fireClose(): void {
        void this.end();
    }

    private async end(): Promise<void> {
        let handled: Promise<void>;
        do {
            handled = this.handled;
            await handled;
            // While something is left to decode, a message comes in every turn.
            await turn();
            await turn();
        } while (handled !== this.handled);
        super.fireClose();
    }
}
