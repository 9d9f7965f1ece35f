import type { Change, Message, Note, JsonObject, Notifications, OpenResult, Requests, SessionInfo } from './protocol.js'
export type * from './protocol.js'

export declare const PROTOCOL_VERSION: 1

export interface ErrorBody { code?: number, message?: string, data?: JsonObject & { kind?: string, hint?: string } }

/** An error that the daemon returned. Decide by `kind`; people read `message` and `hint`. */
export declare class SessiondError extends Error {
  constructor(error: ErrorBody)
  code: number
  kind: string
  hint: string | null
  data: JsonObject
}

/** There is no connection, or it ended before the answer: the request may or may not have been carried out. */
export declare class Disconnected extends SessiondError {
  constructor(message?: string)
}

/** Removes the listener. */
export type Off = () => void

export interface ConnectionOptions {
  /** `ws://127.0.0.1:8712` */
  url: string
  /** From the file that `sessiond status` shows. */
  token?: string | null
  /** The name of this client where its changes are shown. */
  client?: string
  /** Milliseconds before the first attempt to reconnect; doubled with each, up to `maxBackoffMs`. */
  backoffMs?: number
  maxBackoffMs?: number
  /** Milliseconds that an attempt may take. */
  connectMs?: number
  /** Makes the socket, if not `new WebSocket(url)`. */
  socket?: (url: string) => WebSocket
  /** Awaited before every attempt; see `prove`. */
  beforeConnect?: () => Promise<void>
}

export type ConnectionState = 'idle' | 'connecting' | 'open' | 'waiting' | 'closed' | 'refused'

export interface ConnectionEvents {
  state: [{ state: ConnectionState, error: Error | null, retryMs: number | null }]
  notification: { [M in keyof Notifications]: [method: M, params: Notifications[M]] }[keyof Notifications]
  /** An error answer that does not belong to a request. */
  problem: [SessiondError]
}

export interface CallOptions { signal?: AbortSignal }

export declare class Connection {
  constructor(options: ConnectionOptions)
  readonly state: ConnectionState
  readonly url: string
  /** The answer to `initialize`, once it has arrived. */
  readonly server: JsonObject | null
  readonly limits: Record<string, number> | null
  /** Connect and stay connected. Rejects if the daemon will never admit us (a wrong token, another version). */
  connect(): Promise<JsonObject>
  /** Try at once instead of waiting for the next attempt. */
  retry(): void
  close(): void
  call<M extends keyof Requests>(method: M, params?: Requests[M]['params'], options?: CallOptions): Promise<Requests[M]['result']>
  notify<M extends keyof Requests>(method: M, params?: Requests[M]['params']): void
  /** Open a session and keep it open over every reconnect. */
  follow(sessionId: string, options?: { last?: number, restore?: boolean }): Room
  on<E extends keyof ConnectionEvents>(event: E, listener: (...values: ConnectionEvents[E]) => void): Off
  on<M extends keyof Notifications>(method: M, listener: (params: Notifications[M]) => void): Off
}

export interface RoomEvents {
  opened: [OpenResult]
  /** Apply it with `applyChange`: then a change that comes twice has no further effect. */
  change: [change: Change, how: { own: boolean, replay: boolean }]
  /** Replace the present content by this. */
  reset: [OpenResult]
  caughtUp: [OpenResult]
  saved: [Notifications['session/saved']]
  restored: [Notifications['session/restored']]
  /** Something else goes on in it; `info.activity` has it, too. */
  activityChanged: [Notifications['session/activityChanged']]
  /** `movedTo`: the id that it has now; null if it was deleted. */
  deleted: [{ movedTo: string | null }]
  problem: [SessiondError]
}

type InSession<M extends keyof Requests> = Omit<Requests[M]['params'], 'sessionId'>

/** One session, followed: every change once. */
export declare class Room {
  private constructor()
  readonly sessionId: string
  readonly opened: Promise<OpenResult>
  readonly seq: number | null
  info: SessionInfo | null
  call<M extends keyof Requests>(method: M, params?: InSession<M>, options?: CallOptions): Promise<Requests[M]['result']>
  close(): Promise<void>
  on<E extends keyof RoomEvents>(event: E, listener: (...values: RoomEvents[E]) => void): Off
}

export interface Model { info: SessionInfo, messages: Message[], notes: Note[], state: JsonObject }

export declare function modelOf(result: OpenResult): Model
/** Returns whether anything changed. Applying a change again has no effect. */
export declare function applyChange(model: Model, change: Change): boolean
/** Add streamed text by its offset in code points. Returns whether anything was added. */
export declare function extend(message: Message, change: { text: string, offset?: number }): boolean
export declare function codePoints(text: string): number
export declare function newId(prefix?: string): string
/** Rejects unless the daemon behind `httpUrl` knows the token; the token is not shown to it. */
export declare function prove(httpUrl: string, token: string, port?: number | null): Promise<void>
