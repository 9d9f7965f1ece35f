import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createMessageConnection, StreamMessageWriter } from 'vscode-jsonrpc/node';
import { LastWordsReader } from '../../src/core/reader';

function framed(message: object): string {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    return `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

test('what was said before the end is handled, in order, before the end is told', async () => {
    const from = new PassThrough();
    const connection = createMessageConnection(new LastWordsReader(from), new StreamMessageWriter(new PassThrough()));
    const heard: unknown[] = [];
    connection.onNotification('note', (number) => void heard.push(number));
    const closed = new Promise<void>((resolve) => connection.onClose(() => (connection.dispose(), resolve())));
    connection.listen();
    const answered = connection.sendRequest('stop', {});
    const unanswered = connection.sendRequest('never', {});
    const notes = Array.from({ length: 100 }, (_, number) => framed({ method: 'note', params: [number] }));
    from.end(`${notes.join('')}${framed({ id: 0, result: 'stopped' })}`);
    assert.equal(await answered, 'stopped');
    await assert.rejects(unanswered);
    await closed;
    assert.deepEqual(heard, Array.from({ length: 100 }, (_, number) => number));
});
