import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Hub, Hubs } from '../../src/core/hubs';

const NOW = new Date(2026, 0, 11, 15, 0);
const AT = new Date(2026, 0, 11, 14, 30).toISOString();

/** A new Hubs, and the requests that it is waiting on. */
function made(): { hubs: Hubs; answers: { give: (stores: { name: string; hub?: Hub }[]) => void; fail: () => void }[]; changes: () => number } {
    const answers: { give: (stores: { name: string; hub?: Hub }[]) => void; fail: () => void }[] = [];
    let changes = 0;
    const ask = () =>
        new Promise<{ stores: { name: string; hub?: Hub }[] }>((resolve, reject) => {
            answers.push({ give: (stores) => resolve({ stores }), fail: () => reject(new Error('gone')) });
        });
    return { hubs: new Hubs(ask, () => (changes += 1)), answers, changes: () => changes };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('the daemon is asked once, and only for a session of another store', async () => {
    const { hubs, answers, changes } = made();
    hubs.need('mine');
    assert.equal(answers.length, 0);
    hubs.need('team/a');
    hubs.need('team/b');
    assert.equal(answers.length, 1);
    answers[0].give([{ name: 'default' }, { name: 'team', hub: { state: 'online' } }]);
    await settled();
    assert.equal(changes(), 1);
    assert.equal(hubs.words('team/a', NOW), 'shared');
    assert.equal(hubs.words('mine', NOW), '');
    assert.equal(hubs.words('default/mine', NOW), '');
});

test('what is told while the daemon is asked is newer than its answer', async () => {
    const { hubs, answers } = made();
    hubs.need('team/a');
    hubs.heard('team', { state: 'offline', since: AT, pending: 3 });
    answers[0].give([{ name: 'team', hub: { state: 'online' } }]);
    await settled();
    assert.equal(hubs.words('team/a', NOW), 'offline since 14:30, 3 waiting');
});

test('another day is named, and a missing time is not', () => {
    const { hubs } = made();
    hubs.heard('team', { state: 'offline', since: AT });
    assert.equal(hubs.words('team/a', new Date(2026, 0, 12)), 'offline since 2026-01-11 14:30');
    hubs.heard('team', { state: 'offline' });
    assert.equal(hubs.words('team/a', NOW), 'offline');
    hubs.heard('team', { state: 'online', pending: 2 });
    assert.equal(hubs.words('team/a', NOW), '2 waiting');
});

test('after a failure, and on a new connection, it is asked again', async () => {
    const { hubs, answers } = made();
    hubs.need('team/a');
    answers[0].fail();
    await settled();
    hubs.need('team/a');
    assert.equal(answers.length, 2);
    answers[1].give([{ name: 'team', hub: { state: 'online' } }]);
    await settled();
    hubs.forget();
    assert.equal(hubs.words('team/a', NOW), '');
    hubs.need('team/a');
    assert.equal(answers.length, 3);
});
