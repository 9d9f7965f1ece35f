import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Clock } from '../../src/core/clock';
import { Draft } from '../../src/core/draft';
import { Failure } from '../../src/core/failure';

/** Time that passes when a test says so. */
class TestClock implements Clock {
    private time = 0;
    private due: { at: number; run: () => void }[] = [];

    now(): number {
        return this.time;
    }

    later(milliseconds: number, run: () => void): () => void {
        const one = { at: this.time + milliseconds, run };
        this.due.push(one);
        return () => (this.due = this.due.filter((other) => other !== one));
    }

    async pass(milliseconds: number): Promise<void> {
        for (let left = milliseconds; left > 0; left -= 1) {
            this.time += 1;
            for (const one of this.due.filter(({ at }) => at <= this.time)) {
                this.due.splice(this.due.indexOf(one), 1);
                one.run();
            }
            await new Promise((resolve) => setImmediate(resolve));
        }
    }
}

class Desk {
    readonly clock = new TestClock();
    text: string | undefined = '';
    may = true;
    refuse: Failure | undefined;
    readonly stored: [at: number, value: string | null][] = [];
    readonly complaints: string[] = [];
    readonly draft = new Draft(
        {
            set: (value) => {
                if (this.refuse !== undefined) {
                    return Promise.reject(this.refuse);
                }
                this.stored.push([this.clock.now(), value]);
                return Promise.resolve();
            },
            mayStore: () => this.may,
            text: () => this.text,
            show: (text) => (this.text = text),
            settled: () => undefined,
            complain: (failure) => this.complaints.push(failure.said),
        },
        this.clock,
    );

    type(text: string): void {
        this.text = text;
        this.draft.touch();
    }
}

test('a draft is stored at most once a second, and the last of it always', async () => {
    const desk = new Desk();
    for (let letter = 1; letter <= 350; letter += 1) {
        desk.type('x'.repeat(letter));
        await desk.clock.pass(10);
    }
    await desk.clock.pass(1000);
    const times = desk.stored.map(([at]) => at);
    times.slice(1).forEach((at, place) => assert.ok(at - times[place] >= 1000, String(times)));
    assert.equal(desk.stored.at(-1)![1], 'x'.repeat(350));
    assert.ok(times.length >= 4, String(times));
});

test('saving by hand waits for its second too', async () => {
    const desk = new Desk();
    desk.type('a');
    await desk.clock.pass(1);
    desk.text = 'ab';
    const kept = desk.draft.keep();
    await desk.clock.pass(2000);
    await kept;
    assert.deepEqual(desk.stored.map(([, value]) => value), ['a', 'ab']);
    assert.ok(desk.stored[1][0] - desk.stored[0][0] >= 1000);
});

test('nothing is stored while a message is on its way, and then that it is gone', async () => {
    const desk = new Desk();
    desk.type('hello');
    await desk.clock.pass(1);
    assert.equal(desk.draft.take(), 'hello');
    desk.may = false;
    desk.draft.touch();
    await desk.clock.pass(3000);
    desk.may = true;
    desk.draft.touch();
    await desk.clock.pass(1);
    assert.deepEqual(desk.stored.map(([, value]) => value), ['hello', null]);
});

test('an earlier draft comes back, unless it was sent or something else stands there', () => {
    const again = (stored: unknown, said: unknown, text: string): string | undefined => {
        const desk = new Desk();
        desk.text = text;
        desk.draft.opened(stored, said);
        return desk.text;
    };
    assert.equal(again('kept', 'other', ''), 'kept');
    assert.equal(again('kept', 'kept', ''), '');
    assert.equal(again('kept', 'other', 'typed'), 'typed');
    assert.equal(again(undefined, undefined, ''), '');
});

test('after a lost connection the text here is the newer one', () => {
    const desk = new Desk();
    desk.draft.opened('kept', undefined);
    desk.text = '';
    desk.draft.opened('kept', undefined);
    assert.equal(desk.text, '');
});

test('what was not sent stands before what has been typed since', () => {
    const desk = new Desk();
    desk.text = 'three';
    desk.draft.putBack(['one', 'two']);
    assert.equal(desk.text, 'one\n\ntwo\n\nthree');
});

test('a daemon that does not take it is complained of once, and asked again when more is typed', async () => {
    const desk = new Desk();
    desk.refuse = new Failure('readOnly', 'the disk is full');
    desk.type('a');
    await desk.clock.pass(3000);
    desk.type('ab');
    await desk.clock.pass(3000);
    assert.deepEqual(desk.complaints, ['the disk is full']);
    desk.refuse = undefined;
    desk.type('abc');
    await desk.clock.pass(1);
    assert.deepEqual(desk.stored.map(([, value]) => value), ['abc']);
});

test('of a session that was deleted meanwhile nothing is said: that is told already', async () => {
    const desk = new Desk();
    desk.refuse = new Failure('sessionNotFound', 'no session');
    desk.type('a');
    await desk.clock.pass(3000);
    assert.deepEqual(desk.complaints, []);
    assert.equal(desk.text, 'a');
    assert.equal(desk.draft.kept, '');
});

test('another window changes a draft that nobody types in', () => {
    const desk = new Desk();
    assert.equal(desk.draft.changed('theirs'), true);
    desk.text = 'ours';
    assert.equal(desk.draft.changed('theirs again'), false);
});
