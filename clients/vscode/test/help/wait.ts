// Waiting for what has to come.

const EVERY_MS = 10;
const DEADLINE_MS = 30_000;

/** Asks again and again until the answer is true, and answers it; rejects after the deadline. */
export async function wait<T>(what: string | (() => string), condition: () => T | Promise<T>): Promise<T> {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
        const answer = await condition();
        if (answer) {
            return answer;
        }
        if (Date.now() > end) {
            throw new Error(`not so within ${DEADLINE_MS / 1000} s: ${typeof what === 'string' ? what : what()}`);
        }
        await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
}
