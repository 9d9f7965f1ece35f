import type { Change, Message, Note, JsonObject, Notifications, OpenResult, Requests, SessionInfo } from './protocol.js'
export type * from './protocol.js'

export declare const PROTOCOL_VERSION: 1

export interface ErrorBody { code?: number, message?: string, data?: JsonObject & { kind?: string, hint?: string } }

/** What the daemon answered instead of a result. Decide by `kind`; people read `message` and `hint`. */
export declare class SessiondError extends Error {
  constructor(error: ErrorBody)
  code: number
  kind: string
  hint: string | null
  data: JsonObject
}

/** There is no connection, or it ended before the answer: what was asked may have been done or not. */
export declare class Disconnected extends SessiondError {
  constructor(message?: string)
}

/** Takes the listener off again. */
export type Off = () => void

export interface ConnectionOptions {
  /** `ws://127.0.0.1:8712` */
  url: string
  /** From the file that `sessiond status` names. */
  token?: string | null
  /** How this client is called where its changes are shown. */
  client?: string
  /** Milliseconds before the first attempt to come back; doubled with each, up to `maxBackoffMs`. */
  backoffMs?: number
  maxBackoffMs?: number
  /** Milliseconds that an attempt may take. */
  connectMs?: number
  /** Makes the socket, where it is not `new WebSocket(url)`. */
  socket?: (url: string) => WebSocket
  /** Awaited before every attempt; see `prove`. */
  beforeConnect?: () => Promise<void>
}

export type ConnectionState = 'idle' | 'connecting' | 'open' | 'waiting' | 'closed' | 'refused'

export interface ConnectionEvents {
  state: [{ state: ConnectionState, error: Error | null, retryMs: number | null }]
  notification: { [M in keyof Notifications]: [method: M, params: Notifications[M]] }[keyof Notifications]
  /** An error answer that belongs to no request. */
  problem: [SessiondError]
}

export interface CallOptions { signal?: AbortSignal }

export declare class Connection {
  constructor(options: ConnectionOptions)
  readonly state: ConnectionState
  readonly url: string
  /** The answer to `initialize`, once it has come. */
  readonly server: JsonObject | null
  readonly limits: Record<string, number> | null
  /** Connect and stay connected. Rejects where the daemon never lets us in (a wrong token, another version). */
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
  /** Apply it with `applyChange`: that a change comes a second time changes nothing then. */
  change: [change: Change, how: { own: boolean, replay: boolean }]
  /** What was held is to be replaced by this. */
  reset: [OpenResult]
  caughtUp: [OpenResult]
  saved: [Notifications['session/saved']]
  restored: [Notifications['session/restored']]
  deleted: []
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
/** Whether anything was changed. Applied a second time a change changes nothing. */
export declare function applyChange(model: Model, change: Change): boolean
/** Add streamed text by its offset in code points. Whether anything was added. */
export declare function extend(message: Message, change: { text: string, offset?: number }): boolean
export declare function codePoints(text: string): number
export declare function newId(prefix?: string): string
/** Rejects unless the daemon behind `httpUrl` knows the token; the token is not shown to it. */
export declare function prove(httpUrl: string, token: string, port?: number | null): Promise<void>
