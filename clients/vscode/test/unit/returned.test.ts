import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Failure } from '../../src/core/failure';
import { Message } from '../../src/core/protocol';
import { Returned } from '../../src/core/returned';
import { Room, RoomHost } from '../../src/core/room';

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A room whose daemon takes messages, but may not answer. */
class Desk {
    readonly there: Message[] = [];
    away = false;
    private text: string | undefined;
    private ids = 0;
    readonly room = new Room('s', this.host());

    private host(): RoomHost {
        const info = () => ({ sessionId: 's', name: 's', seq: this.there.length, messageCount: this.there.length, tags: [] });
        const request = (method: string, params: { messages?: Message[] }): Promise<unknown> => {
            for (const message of params.messages ?? []) {
                if (!this.there.some(({ id }) => id === message.id)) {
                    this.there.push({ ...message, seq: this.there.length + 1 });
                }
            }
            if (this.away) {
                return Promise.reject(new Failure('disconnected', 'lost'));
            }
            const opened = { session: info(), messages: [...this.there], state: {}, hasMore: false, warnings: [] };
            return Promise.resolve(method === 'session/open' ? opened : { messages: [{ id: 'any', seq: this.there.length }] });
        };
        const nothing = (): void => undefined;
        return {
            wire: { request } as unknown as RoomHost['wire'],
            clock: { now: () => 0, later: () => nothing },
            outbox: { load: () => [], keep: nothing, drop: nothing },
            newId: () => `m${(this.ids += 1)}`,
            paint: nothing,
            failed: nothing,
            warn: nothing,
            warnings: nothing,
            wake: () => Promise.reject(new Failure('noProgram', 'not found')),
            draftText: () => this.text,
            showDraft: (_, text) => (this.text = text),
            draftSettled: nothing,
            draftChanged: nothing,
            allSent: nothing,
        };
    }

    get said(): unknown[] {
        return this.there.map(({ content }) => content);
    }

    get draft(): string {
        return this.room.draft.text();
    }

    /** Says "there", whose answer is lost, and "waits", which finds no program. */
    async lose(): Promise<void> {
        await this.room.ready;
        this.away = true;
        this.room.say('there');
        await settled();
        this.room.disconnected(false);
        this.room.say('waits');
        await settled();
    }
}

test('what came back and is seen in the session leaves the draft', async () => {
    const desk = new Desk();
    await desk.lose();
    assert.equal(desk.draft, 'there\n\nwaits');
    desk.away = false;
    desk.room.connected();
    await settled();
    assert.equal(desk.draft, 'waits');
    desk.room.sayDraft();
    desk.room.say('there');
    await settled();
    assert.deepEqual(desk.said, ['there', 'waits', 'there']);
});

test('what came back and is sent again before it was seen is there once', async () => {
    const desk = new Desk();
    await desk.lose();
    desk.room.sayDraft();
    await settled();
    assert.equal(desk.draft, 'there\n\nwaits');
    desk.away = false;
    desk.room.sayDraft(); // and the program is found by the reconnect, not by this
    desk.room.connected();
    await settled();
    desk.room.sayDraft();
    await settled();
    assert.deepEqual(desk.said, ['there', 'waits']);
});

test('a draft is split into what came back and the rest', () => {
    const returned = new Returned();
    const back = [{ id: 'a', text: 'one' }, { id: 'b', text: 'two\n\nlines' }];
    returned.add(back);
    assert.deepEqual(returned.take('one\n\ntwo\n\nlines\n\nmore'), [...back, { text: 'more' }]);
    assert.deepEqual(returned.take('one'), [{ text: 'one' }]); // forgotten since then
    returned.add(back);
    assert.deepEqual(returned.take('one more\n\ntwo\n\nlines'), [{ text: 'one more\n\ntwo\n\nlines' }]);
});
