// What of the wire this client uses. The whole of it is in docs/protocol.md.

export const PROTOCOL = 1;

/** What goes on in a session at the moment. */
export interface Activity {
    state: 'working' | 'waiting';
    client: string;
    waitingFor?: string;
    text?: string;
    question?: { id: string; choices?: { id: string; label: string }[] };
}

export interface SessionInfo {
    sessionId: string;
    name: string | null;
    createdAt: string;
    updatedAt: string;
    model: string | null;
    messageCount: number;
    seq: number;
    path: string;
    cwd: string | null;
    tags: string[];
    archived: boolean;
    summary: string | null;
    parent: { sessionId: string; seq: number } | null;
    activity?: Activity;
}

export type Status = 'streaming' | 'done' | 'interrupted' | 'error';

export interface Message {
    id: string;
    seq: number;
    role: string;
    content: string | unknown[];
    timestamp: string;
    toolCalls?: { id?: string; name?: string; arguments?: unknown }[];
    toolCallId?: string;
    thinking?: unknown;
    status?: Status;
    author?: unknown;
}

export interface Change {
    kind: 'created' | 'appended' | 'extended' | 'finished' | 'updated' | 'note' | 'state' | 'cleared' | 'truncated';
    seq: number;
    messages?: Message[];
    messageId?: string;
    text?: string;
    offset?: number;
    status?: Status;
    toolCalls?: Message['toolCalls'];
    session?: SessionInfo;
    values?: Record<string, unknown>;
    afterSeq?: number;
}

export interface FileWarning {
    path: string;
    line: number | null;
    message: string;
}

export interface Opened {
    session: SessionInfo;
    messages: Message[];
    state: Record<string, unknown>;
    hasMore: boolean;
    warnings: FileWarning[];
    changes?: Change[] | null;
}

export interface Page {
    messages: Message[];
    hasMore: boolean;
    seq: number;
}

export interface Hit {
    sessionId: string;
    name: string | null;
    messageId: string | null;
    seq: number;
    role: string | null;
    timestamp: string;
    snippet: string;
    ranges: [number, number][];
}

export interface Hits {
    hits: Hit[];
    total: number;
    nextCursor: string | null;
    incomplete?: boolean;
}

export interface Sessions {
    sessions: SessionInfo[];
    nextCursor: string | null;
}

export interface Appended {
    seq: number;
    messages: { id: string; seq: number }[];
}

/** What asks the daemon. Every request is answered once; rejections are Failures. */
export interface Wire {
    request<T>(method: string, params: object, token?: unknown): Promise<T>;
}
