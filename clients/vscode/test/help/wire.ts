// Plays a wire transcript (tests/wire/README.md): named clients and one fresh daemon.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Failure } from '../../src/core/failure';
import { Heard } from './other';
import { wait } from './wait';

/** One client of a transcript. */
export interface Player {
    heard: Heard[];
    request(method: string, params: object): Promise<unknown>;
    notify(method: string, params: object): Promise<void>;
    kill(): Promise<void>;
}

type Outcome = { result?: unknown; failure?: Failure & { data?: unknown } };

export class Stage {
    private readonly players = new Map<string, Player>();
    private readonly asked = new Map<string, Promise<Outcome>>();
    private readonly names = new Map<string, unknown>();

    constructor(private readonly enter: () => Player) {}

    async play(path: string): Promise<void> {
        for (const line of readFileSync(path, 'utf8').split('\n')) {
            if (line.trim() !== '' && !line.startsWith('#')) {
                try {
                    await this.line(line);
                } catch (error) {
                    throw new Error(`${line}\n${String(error)}`, { cause: error });
                }
            }
        }
    }

    async leave(): Promise<void> {
        await Promise.all([...this.players.values()].map((player) => player.kill()));
    }

    private async line(line: string): Promise<void> {
        const [, who, mark, rest] = /^(.)(.)\s*(.*)$/.exec(line)!;
        const silently = mark === '>' && rest.startsWith('!');
        const [, word, json] = /^(\S*)\s*(.*)$/.exec(silently ? rest.slice(1).trim() : rest)!;
        const player = this.player(who);
        switch (mark) {
            case '-':
                this.players.delete(who);
                await player.kill();
                break;
            case '>':
                if (silently) {
                    await player.notify(word, this.filled(parsed(json)) as object);
                } else {
                    this.asked.set(who, outcome(player.request(word, this.filled(parsed(json)) as object)));
                }
                break;
            case '<': {
                const { result, failure } = await this.asked.get(who)!;
                assert.equal(failure, undefined);
                this.match(parsed(rest), result, 'result');
                break;
            }
            case '!': {
                const { failure } = await this.asked.get(who)!;
                assert.equal(failure?.kind, word);
                break;
            }
            case '*':
                this.match(parsed(json), await heard(player, word), word);
                break;
            default:
                throw new Error('no line of a transcript');
        }
    }

    private player(who: string): Player {
        const player = this.players.get(who) ?? this.enter();
        this.players.set(who, player);
        return player;
    }

    private filled(given: unknown): unknown {
        if (typeof given === 'string') {
            return this.names.get(given) ?? given;
        }
        if (Array.isArray(given)) {
            return given.map((one) => this.filled(one));
        }
        if (typeof given === 'object' && given !== null) {
            return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, this.filled(value)]));
        }
        return given;
    }

    private match(expected: unknown, found: unknown, where: string): void {
        if (expected === '...') {
            return;
        }
        if (typeof expected === 'string' && expected.startsWith('$')) {
            if (!this.names.has(expected)) {
                this.names.set(expected, found);
            }
            assert.deepEqual(found, this.names.get(expected), where);
        } else if (Array.isArray(expected)) {
            assert.ok(Array.isArray(found), where);
            assert.equal(found.length, expected.length, where);
            expected.forEach((one, at) => this.match(one, found[at], `${where}[${at}]`));
        } else if (typeof expected === 'object' && expected !== null) {
            assert.ok(typeof found === 'object' && found !== null, where);
            for (const [key, value] of Object.entries(expected)) {
                assert.ok(key in found, `${where}.${key} is missing in ${JSON.stringify(found)}`);
                this.match(value, (found as Record<string, unknown>)[key], `${where}.${key}`);
            }
        } else {
            assert.equal(found, expected, where);
        }
    }
}

function parsed(json: string): unknown {
    return json === '' ? {} : JSON.parse(json);
}

function outcome(request: Promise<unknown>): Promise<Outcome> {
    return request.then(
        (result) => ({ result }),
        (failure: Failure) => ({ failure }),
    );
}

function heard(player: Player, method: string): Promise<unknown> {
    return wait(`${method} is heard`, () => {
        while (player.heard.length > 0) {
            const one = player.heard.shift()!;
            if (one.method === method) {
                return one.params as unknown;
            }
        }
        return undefined;
    });
}
