// Time, so that tests can have their own.

export interface Clock {
    /** Milliseconds, only useful for differences. */
    now(): number;
    /** Runs something later, unless the returned function is called before. */
    later(milliseconds: number, run: () => void): () => void;
}

export const systemClock: Clock = {
    now: () => performance.now(),
    later(milliseconds, run) {
        const timer = setTimeout(run, milliseconds);
        return () => clearTimeout(timer);
    },
};
