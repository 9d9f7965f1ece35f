// What a relay says, up to its last word.

import { DataCallback, Disposable, StreamMessageReader } from 'vscode-jsonrpc/node';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Tells of the end of its stream when all that came before it has been handled. The library tells at once, and a connection that is closed
 * then answers nothing more: whoever asked a daemon that answers and ends would hear that the connection was lost.
 */
export class LastWordsReader extends StreamMessageReader {
    /** A connection handles one message in a turn of the event loop. */
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
            // While something is left to be decoded, a message comes in every turn.
            await turn();
            await turn();
        } while (handled !== this.handled);
        super.fireClose();
    }
}
