import type { Connection } from './sessiond.js'
import type { Outbox } from './outbox.js'

export declare const STORAGE_KEY: 'THEIA_AGENT_STATE_V1'
export declare const FIELDS: string[]

export interface AgentMessage { role: string, content: string | unknown[], [key: string]: unknown }

export interface AgentState {
  messages: AgentMessage[]
  context?: unknown
  prData?: unknown
  plan?: unknown
  pendingAction?: unknown
  lastError?: unknown
  savedAt?: string
}

export interface StorageEvents {
  AGENT_SESSION_RESTORED: { state: AgentState }
  AGENT_PLAN_CREATED: { plan: unknown, restored: true }
  AGENT_SESSION_CHANGED: { state: AgentState }
  STORAGE_PROBLEM: { error: Error & { kind?: string, hint?: string | null } }
}

export interface EventBus { emit(event: { type: keyof StorageEvents, payload: any }): void }

export interface StorageOptions {
  connection: Connection
  sessionId?: string
  /** The name of a store of the daemon; the default store if absent. */
  store?: string | null
  eventBus?: EventBus | null
  outbox?: Outbox | null
  localStorage?: Storage | null
  /** The keys that are kept in addition to `messages`. */
  fields?: string[]
}

export declare class StorageService {
  constructor(options: StorageOptions)
  readonly sessionId: string
  readonly ready: Promise<void>
  saveState(state: AgentState): Promise<void>
  loadState(): Promise<AgentState | null>
  clearState(): Promise<void>
  hasSavedState(): Promise<boolean>
  /** Whether the daemon has acknowledged everything that was saved. */
  settled(): Promise<boolean>
  on<E extends keyof StorageEvents>(type: E, listener: (payload: StorageEvents[E]) => void): () => void
}
