// Why a request failed.

/**
 * Kinds are those of the wire's `error.data.kind`, and four of our own:
 *   disconnected  the connection ended before the answer, or does not exist
 *   noProgram     the program named in the settings does not exist
 *   unreachable   no daemon could be reached or started
 *   refused       the daemon cannot be used by this extension
 */
export class Failure extends Error {
    constructor(
        readonly kind: string,
        message: string,
        readonly hint?: string,
        options?: ErrorOptions,
    ) {
        super(message, options);
        this.name = 'Failure';
    }

    /** For people: what happened, and what to do. */
    get said(): string {
        return this.hint ? `${this.message} (${this.hint})` : this.message;
    }
}

const CANCELLED = -32800;
/** Codes of vscode-jsonrpc for a connection that is gone: could not write, response rejected, inactive. */
const GONE = new Set([-32099, -32097, -32096]);

function text(value: unknown): string | undefined {
    return typeof value === 'string' ? value : undefined;
}

export function failureOf(error: unknown): Failure {
    if (error instanceof Failure) {
        return error;
    }
    const raw = (typeof error === 'object' && error !== null ? error : {}) as { code?: unknown; data?: unknown; message?: unknown };
    const message = text(raw.message) ?? String(error);
    // Codes of JSON-RPC are negative; those of vscode-jsonrpc for a connection that was closed before are not.
    if (typeof raw.code !== 'number' || raw.code >= 0 || GONE.has(raw.code)) {
        return new Failure('disconnected', 'the connection to the daemon was lost');
    }
    const data = (typeof raw.data === 'object' && raw.data !== null ? raw.data : {}) as { kind?: unknown; hint?: unknown };
    return new Failure(text(data.kind) ?? (raw.code === CANCELLED ? 'cancelled' : 'internalError'), message, text(data.hint));
}
