import type { Connection, SessiondError } from './sessiond.js'

export interface Entry { number?: number, method: string, params: Record<string, unknown> }
export type OutboxListener = (...event: ['problem', SessiondError] | ['refused', { entry: Entry, error: SessiondError }] | ['sent' | 'dropped', Entry]) => void

export interface OutboxOptions {
  /** The name of the IndexedDB database; tabs of one origin with the same name share the queue. */
  name?: string
  /** Milliseconds before a request that the daemon temporarily refused is sent again. */
  retryMs?: number
  handlers?: Record<string, (connection: Connection, params: any) => Promise<void>>
}

/** Requests that are kept while the daemon is away, and sent in order, each once. */
export declare class Outbox {
  constructor(options?: OutboxOptions)
  add(method: string, params: Record<string, unknown>): Promise<boolean>
  entries(): Promise<Entry[]>
  drop(test: (entry: Entry) => boolean): Promise<void>
  flush(connection: Connection): Promise<void>
  listen(listener: OutboxListener): () => void
  snapshot(key: string): Promise<unknown>
  keepSnapshot(key: string, value: unknown): Promise<void>
}
