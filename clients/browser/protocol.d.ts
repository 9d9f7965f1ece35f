// The requests, notifications and types of the protocol. Written from docs/openrpc.json by
//   python -m tests.clients.browser_types

export type JsonObject = Record<string, unknown>

/** What was acknowledged. */
export interface AcknowledgeResult {
  /** How many entries of `damage` there were. */
  acknowledged: number
}

/** Where a client that shows the token may connect. */
export interface Address {
  host: string
  port: number
  tokenFile: string
}

/** A folder of one of the source systems. */
export interface AdoptParams {
  path: string
  /** The store's name. */
  name?: string | null
  /** Recognised if absent. */
  format?: string | null
}

/** The store, which takes effect at once. */
export interface AdoptResult {
  store: StoreStatus
  /** How many are in it. */
  sessions: number
  warnings: Array<FileWarning>
}

/** Messages to append, all of them or none. */
export interface AppendParams {
  sessionId: string
  messages: Array<NewMessage>
  /** `conflict` unless it is the session's seq. */
  expectedSeq?: number | null
}

/** Sent only when durable. */
export interface AppendResult {
  seq: number
  messages: Array<AppendedMessage>
}

/** Where a message went. */
export interface AppendedMessage {
  id: string
  seq: number
}

/** Where to. */
export interface BackupParams {
  /** Absolute, outside all folders that sessiond looks after. Nothing is there yet. */
  path: string
  /** `$/progress` is sent with it. */
  workDoneToken?: number | string | null
}

/** What was copied. */
export interface BackupResult {
  files: number
  bytes: number
  /** Every change that was answered before the journal's record of this number was written is in the copy. */
  lsn: number
  /** What could not be copied, where there is any. */
  warnings?: Array<FileWarning>
}

/** One change of a session. `kind` says which of the fields are there. */
export interface Change {
  kind: "appended" | "cleared" | "created" | "extended" | "finished" | "note" | "state" | "truncated" | "updated"
  seq: number
  /** `appended`. */
  messages?: Array<Message> | null
  /** `extended`, `finished`. */
  messageId?: string | null
  /** `extended`: what was added. */
  text?: string | null
  /** `extended`: code points before the text. */
  offset?: number | null
  /** `finished`. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  /** `finished`. */
  metadata?: JsonObject | null
  /** `finished`. */
  toolCalls?: Array<ToolCall> | null
  /** `updated`: the session after it. */
  session?: SessionInfo | null
  /** `updated`: what was set. */
  fields?: JsonObject | null
  /** `note`. */
  note?: Note | null
  /** `state`: a null removes its key. */
  values?: JsonObject | null
  /** `state`: after `session/restored`, all state once more. */
  replay?: boolean | null
  /** `truncated`: messages with a greater seq are gone. */
  afterSeq?: number | null
}

/** To every connection that has the session open, but the one that made the change. */
export interface Changed {
  sessionId: string
  seq: number
  changes: Array<Change>
  origin: Origin
  /** After `session/restored`: no change, but all state once more. */
  replay?: boolean
}

/** What is configured. */
export interface ConfigStatus {
  /** The configuration file's path, whether it is there or not. */
  file: string
  /** By name; settings with their default are left out. */
  values: JsonObject
}

/** A stretch of the journal that was durable once and could not be read. */
export interface Damage {
  /** Where its bytes are kept. */
  path: string
  /** How many records are known to be lost with it. 0: none, all others could be read. */
  records: number
  /** When it was found. */
  since: string
  reason: string
}

/** What to delete. */
export interface DeleteParams {
  sessionId: string
  /** Also out of trash, index and journal, earlier states and copies of damaged files included. When it is answered no word is left there. It may be sent again after a crash: `sessionNotFound` then means that nothing is left either. */
  permanent?: boolean | null
}

/** The session is gone. */
export interface Deleted {
  sessionId: string
}

/** Where to and in which format. */
export interface ExportParams {
  sessionId: string
  /** `jsonl` is native and lossless. */
  format: "html" | "json" | "jsonl" | "markdown" | "org" | "text"
  /** Absolute and outside the daemon's own folders; without it the content is answered. */
  path?: string | null
  overwrite?: boolean | null
}

/** `content` without a path, the others with one. */
export interface ExportResult {
  content?: string
  path?: string
  bytes?: number
}

/** More text of a streamed message. */
export interface ExtendParams {
  sessionId: string
  messageId: string
  text: string
  /** Code points before the text; makes a repetition harmless. */
  offset?: number | null
}

/** A part of a file that could not be understood and was left as it is. */
export interface FileWarning {
  path: string
  /** 1-based; null where there are no lines. */
  line: number | null
  message: string
}

/** All of what is given must hold. */
export interface Filter {
  store?: string | null
  /** All of them. */
  tags?: Array<string> | null
  /** true: only archived ones. Absent or false: none of them. */
  archived?: boolean | null
  /** true: only deleted ones. Absent or false: none of them. */
  deleted?: boolean | null
  model?: string | null
  cwd?: string | null
  /** RFC 3339, on `updatedAt`, included. */
  since?: string | null
  /** RFC 3339, on `updatedAt`, excluded. */
  until?: string | null
  /** A part of the name, case ignored. */
  name?: string | null
}

/** The end of a streamed message. */
export interface FinishParams {
  sessionId: string
  messageId: string
  /** `done` if absent. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  /** Merged into the message's by key. */
  metadata?: JsonObject | null
  toolCalls?: Array<ToolCall> | null
}

/** A copy that goes its own way. */
export interface ForkParams {
  sessionId: string
  /** Up to and with this seq; everything if absent. */
  atSeq?: number | null
  name?: string | null
}

/** Frozen for ever, so that any later version can recognise any earlier one. */
export interface HelloResult {
  protocolVersion: number
  version: string
  pid: number
  instanceId: string
}

/** A message, or a session's name or note (`messageId` null), with the piece of it that shows why it was found. A note and a name have no `role`; a name has its session's `updatedAt` as timestamp. `ranges` are in order and do not overlap. `score` only grows with relevance: it orders the hits of one answer and means nothing between answers. */
export interface Hit {
  sessionId: string
  name: string | null
  messageId: string | null
  /** Null for a session's name. */
  seq: number | null
  role: string | null
  timestamp: string
  snippet: string
  /** Code points of the snippet, each [start, end), of what was found; none where only the meaning is near. */
  ranges: Array<Array<number>>
  score: number
}

/** A file or folder of another tool. */
export interface ImportParams {
  /** A folder is walked. */
  path: string
  /** Recognised if absent. */
  format?: string | null
  store?: string | null
  /** RFC 3339. Sessions in which nothing was said since then are left out. */
  since?: string | null
  dryRun?: boolean | null
  /** `$/progress` is sent with it. */
  workDoneToken?: number | string | null
}

/** What was made or grew, or would be. */
export interface ImportResult {
  sessions: Array<SessionInfo>
  /** Sessions that brought nothing new. */
  skipped: number
  warnings: Array<FileWarning>
  /** With `since`: files that were not opened, because by their time nobody wrote to them after it. */
  untouched?: number
}

/** The catalogue and the search index. */
export interface IndexStatus {
  /** `building`: searches may miss something. `failing`: the index cannot be written, and misses what is new. */
  state: "building" | "failing" | "ready"
  /** Sessions that were read again since the last check of the files against the index began, ... */
  read: number
  /** ... of so many that have to be; known as soon as all files were compared, before any is read. */
  found: number
  /** Why it is failing. */
  problem: string | null
}

/** The daemon-wide journal. */
export interface JournalStatus {
  bytes: number
  lsn: number
  /** Bytes of what cannot be saved for now and was moved out of its way, into `data/held`. */
  held: number
}

/** A page of sessions. */
export interface ListParams {
  limit?: number | null
  /** `nextCursor` of the page before. */
  cursor?: string | null
  /** `-updatedAt` if absent. */
  sort?: "-createdAt" | "-messageCount" | "-name" | "-updatedAt" | "createdAt" | "messageCount" | "name" | "updatedAt" | null
  filter?: Filter | null
}

/** A page of sessions. */
export interface ListResult {
  sessions: Array<SessionInfo>
  nextCursor: string | null
  /** The catalogue is being rebuilt; there may be more, and some may have changed. */
  incomplete?: boolean
}

/** What to listen on. */
export interface ListenParams {
  kind: "tcp" | "ws"
  /** Loopback if absent. */
  host?: string | null
  /** 0: any free one. */
  port?: number
}

/** A message of a session, with its current content. */
export interface Message {
  /** `user`, `assistant`, `system`, `tool`, or another word. */
  role: string
  /** Text, or a list of content blocks. */
  content: string | unknown[]
  /** `streaming`: `session/extend` will follow. Absent means done. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  toolCalls?: Array<ToolCall> | null
  /** Role `tool`: the call that this is the result of. */
  toolCallId?: string | null
  thinking?: string | null
  thread?: string | null
  /** The source system's turn number. */
  tick?: number | null
  contextSnapshot?: unknown
  metadata?: JsonObject | null
  id: string
  seq: number
  /** RFC 3339 in UTC with milliseconds. */
  timestamp: string
  /** The message came from a file and is too large for an answer: so many bytes it has. `content` is the beginning of its text, or empty, and all else is left out. `session/export` has the whole. */
  cut?: number | null
}

/** To another store and format. */
export interface MoveParams {
  sessionId: string
  store: string
  dryRun?: boolean | null
}

/** The session under its new id. */
export interface MoveResult {
  session: SessionInfo
  /** What the new format's own system will not show. */
  lost: Array<string>
}

/** A message as a client appends it. */
export interface NewMessage {
  /** `user`, `assistant`, `system`, `tool`, or another word. */
  role: string
  /** Text, or a list of content blocks. */
  content: string | unknown[]
  /** `streaming`: `session/extend` will follow. Absent means done. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  toolCalls?: Array<ToolCall> | null
  /** Role `tool`: the call that this is the result of. */
  toolCallId?: string | null
  thinking?: string | null
  thread?: string | null
  /** The source system's turn number. */
  tick?: number | null
  contextSnapshot?: unknown
  metadata?: JsonObject | null
  /** 1 to 256 characters; made by the daemon if absent. Sending the same id again with the same content adds nothing. */
  id?: string | null
  /** RFC 3339; the time of arrival if absent. */
  timestamp?: string | null
}

/** A new session. All of it may be left out. */
export interface NewParams {
  /** Without the store: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`. Made by the daemon if absent. */
  sessionId?: string | null
  name?: string | null
  model?: string | null
  cwd?: string | null
  tags?: Array<string> | null
  metadata?: JsonObject | null
  /** The default store if absent. */
  store?: string | null
  messages?: Array<NewMessage> | null
}

/** A note under a heading; `thread` null means for the whole session. */
export interface Note {
  id: string
  seq: number
  heading: string
  content: string
  thread: string | null
  /** The source system's turn number. */
  tick: number | null
  timestamp: string
}

/** A note; its heading is made if it is new. */
export interface NoteAppendParams {
  sessionId: string
  heading: string
  content: string
  /** Absent: for the whole session. */
  thread?: string | null
  tick?: number | null
  /** Sending the same id again with the same content adds nothing. */
  id?: string | null
}

/** Without `thread` the global ones, with it the global ones and that thread's. */
export interface NoteListParams {
  sessionId: string
  thread?: string | null
  lastGlobal?: number | null
  lastThread?: number | null
}

/** Oldest first, each group cut to its own depth. */
export interface NoteListResult {
  notes: Array<Note>
}

/** The note as it is kept. */
export interface NoteResult {
  note: Note
}

/** An empty object. */
export interface Nothing {
}

/** `last` and `since` exclude each other; without either the newest 200 messages come. */
export interface OpenParams {
  sessionId: string
  /** The newest N messages. */
  last?: number | null
  /** Messages and changes with a greater seq. */
  since?: number | null
  /** Send `session/restored` and all state after the answer, so that every panel repaints. */
  restore?: boolean | null
}

/** The session's content; its changes after `session.seq` follow as `session/changed`. */
export interface OpenResult {
  session: SessionInfo
  messages: Array<Message>
  notes: Array<Note>
  state: JsonObject
  /** There are messages that this page left out. */
  hasMore: boolean
  warnings: Array<FileWarning>
  /** With `since`: every change after it in order; null where they are no longer known. */
  changes?: Array<Change> | null
}

/** Who made a change. */
export interface Origin {
  /** `sessiond` where no client asked for the change; `connection` is 0 then. */
  client: string
  connection: number
}

/** Where a fork left. */
export interface Parent {
  sessionId: string
  /** Null where an imported source does not say. */
  seq: number | null
}

/** Why nothing is written. */
export interface ReadOnlyStatus {
  reason: string
  since: string
  /** true: until the daemon is started again. false: the next change tries again. */
  final: boolean
}

/** A page of messages. `last`, `since` and `before` exclude each other. */
export interface ReadParams {
  sessionId: string
  last?: number | null
  /** Forwards: seq greater than this. */
  since?: number | null
  /** Backwards: seq smaller than this. */
  before?: number | null
  limit?: number | null
}

/** Always oldest first. */
export interface ReadResult {
  messages: Array<Message>
  hasMore: boolean
  /** The session's. */
  seq: number
}

/** The file was changed by somebody else and was merged; read again. */
export interface Reloaded {
  session: SessionInfo
  reason: "externalEdit"
}

/** To a connection that opened with `restore: true`, right after the answer. */
export interface Restored {
  session: SessionInfo
  messageCount: number
}

/** To a connection that read too slowly: what it missed was dropped. Read again since the last seq that you have. */
export interface Resync {
  sessionId: string
  seq: number
}

/** One session, or all of them. */
export interface SaveParams {
  sessionId?: string | null
}

/** The files that were behind. */
export interface SaveResult {
  saved: Array<SavedFile>
}

/** The session file is current. */
export interface Saved {
  sessionId: string
  path: string
  bytes: number
  savedAt: string
}

/** A file that is current now. */
export interface SavedFile {
  sessionId: string
  path: string
  bytes: number
}

/** As for a list, plus what belongs to a message. */
export interface SearchFilter {
  store?: string | null
  /** All of them. */
  tags?: Array<string> | null
  /** true: only archived ones. Absent or false: none of them. */
  archived?: boolean | null
  /** true: only deleted ones. Absent or false: none of them. */
  deleted?: boolean | null
  model?: string | null
  cwd?: string | null
  /** RFC 3339, on `updatedAt`, included. */
  since?: string | null
  /** RFC 3339, on `updatedAt`, excluded. */
  until?: string | null
  /** A part of the name, case ignored. */
  name?: string | null
  role?: string | null
  sessionId?: string | null
}

/** What to look for. */
export interface SearchParams {
  query: string
  /** `text` if absent; `semantic` only where `searchModes` of `initialize` has it. */
  mode?: "regex" | "semantic" | "text" | null
  limit?: number | null
  cursor?: string | null
  filter?: SearchFilter | null
}

/** A page of hits. */
export interface SearchResult {
  hits: Array<Hit>
  /** Exact, and the same on every page. By meaning: what the words find and the 200 that are nearest. */
  total: number
  nextCursor: string | null
  /** The index is being rebuilt, or vectors are being made; there may be more. */
  incomplete?: boolean
}

/** The session's seq after the change. */
export interface SeqResult {
  seq: number
}

/** What a list shows of a session. */
export interface SessionInfo {
  /** `ID` in the default store, `STORE/ID` in another. */
  sessionId: string
  name: string | null
  createdAt: string
  updatedAt: string
  model: string | null
  messageCount: number
  /** Of the newest change. */
  seq: number
  store: string
  format: string
  /** Of the session file. */
  path: string
  cwd: string | null
  tags: Array<string>
  archived: boolean
  summary: string | null
  parent: Parent | null
  metadata: JsonObject
  /** Connections that have it open. */
  attached: number
  /** The session file is behind the journal. */
  dirty: boolean
  /** Fields that are not shown, for they came from a file and are too large for an answer. */
  cut?: Array<string>
  /** In the trash: when it came there. */
  deletedAt?: string
  /** In the trash: why, such as `deleted`, `cleared` or `truncated`. */
  reason?: string
}

/** Names a session. */
export interface SessionParams {
  sessionId: string
}

/** The session as it is now. */
export interface SessionResult {
  session: SessionInfo
}

/** A setting that somebody made. */
export interface SettingStatus {
  value: unknown
  /** `flag`, `environment`, or the file's path. */
  source: string
}

/** Which keys; all of them if absent. */
export interface StateGetParams {
  sessionId: string
  keys?: Array<string> | null
}

/** The state as it is now. */
export interface StateResult {
  values: JsonObject
  /** When it last changed. */
  savedAt: string | null
}

/** What a tool keeps beside the messages. */
export interface StateSetParams {
  sessionId: string
  /** A null removes its key; equal values are not a change. */
  values: JsonObject
  expectedSeq?: number | null
}

/** How the daemon is. */
export interface StatusResult {
  version: string
  pid: number
  instanceId: string
  startedAt: string
  dataDir: string
  socket: string | null
  tcp: Address | null
  ws: Address | null
  stores: Array<StoreStatus>
  connections: number
  openSessions: number
  dirtySessions: number
  journal: JournalStatus
  /** Of the journal, as long as nobody has acknowledged it. */
  damage: Array<Damage>
  readOnly: ReadOnlyStatus | null
  index: IndexStatus
  limits: JsonObject
  config: ConfigStatus
}

/** Why a store cannot be reached or written. */
export interface StoreProblem {
  /** `saveFailed`: of one session, which is tried again. */
  kind: "readOnly" | "saveFailed" | "unavailable"
  message: string
}

/** One mounted store. */
export interface StoreStatus {
  name: string
  path: string
  format: string
  sessions: number
  problem: StoreProblem | null
}

/** A call that an assistant's message makes; its result is a message of role `tool` whose `toolCallId` is this `id`. */
export interface ToolCall {
  id: string
  name: string
  arguments: JsonObject | string
}

/** Where to cut. */
export interface TruncateParams {
  sessionId: string
  /** Messages with a greater seq go. */
  afterSeq: number
}

/** The session and how much went; it lies in the trash as a session `ID.was-SEQ`. */
export interface TruncateResult {
  session: SessionInfo
  removed: number
}

/** Only what is there changes; a null empties name, model, summary and cwd. */
export interface UpdateParams {
  sessionId: string
  name?: string | null
  model?: string | null
  tags?: Array<string>
  archived?: boolean
  summary?: string | null
  metadata?: JsonObject
  cwd?: string | null
  expectedSeq?: number | null
}

/** Method -> its params and its result. */
export interface Requests {
  /** Make a session. The caller has it open. */
  'session/new': { params: {
  /** Without the store: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`. Made by the daemon if absent. */
  sessionId?: string | null
  name?: string | null
  model?: string | null
  cwd?: string | null
  tags?: Array<string> | null
  metadata?: JsonObject | null
  /** The default store if absent. */
  store?: string | null
  messages?: Array<NewMessage> | null
}, result: SessionResult }
  /** Read a session and get its changes from `session.seq` on, none missed, none twice. */
  'session/open': { params: {
  sessionId: string
  /** The newest N messages. */
  last?: number | null
  /** Messages and changes with a greater seq. */
  since?: number | null
  /** Send `session/restored` and all state after the answer, so that every panel repaints. */
  restore?: boolean | null
}, result: OpenResult }
  /** Get no more changes. The session is saved if this was the last connection that had it open. */
  'session/close': { params: {
  sessionId: string
}, result: Nothing }
  /** Append messages. Answered only when they are durable, all of them or none; may be repeated with the same ids after a lost answer. */
  'session/append': { params: {
  sessionId: string
  messages: Array<NewMessage>
  /** `conflict` unless it is the session's seq. */
  expectedSeq?: number | null
}, result: AppendResult }
  /** Add text to a message that was appended with `status: "streaming"`. Also as a notification; then durable within a second. */
  'session/extend': { params: {
  sessionId: string
  messageId: string
  text: string
  /** Code points before the text; makes a repetition harmless. */
  offset?: number | null
}, result: SeqResult }
  /** End a streamed message. */
  'session/finish': { params: {
  sessionId: string
  messageId: string
  /** `done` if absent. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  /** Merged into the message's by key. */
  metadata?: JsonObject | null
  toolCalls?: Array<ToolCall> | null
}, result: SeqResult }
  /** Read a page of messages without opening the session. */
  'session/read': { params: {
  sessionId: string
  last?: number | null
  /** Forwards: seq greater than this. */
  since?: number | null
  /** Backwards: seq smaller than this. */
  before?: number | null
  limit?: number | null
}, result: ReadResult }
  /** Change what is known about a session. */
  'session/update': { params: {
  sessionId: string
  name?: string | null
  model?: string | null
  tags?: Array<string>
  archived?: boolean
  summary?: string | null
  metadata?: JsonObject
  cwd?: string | null
  expectedSeq?: number | null
}, result: SessionResult }
  /** Empty messages and summary under the same id. What was there lies in the trash. */
  'session/clear': { params: {
  sessionId: string
}, result: SessionResult }
  /** Take away the newest messages (undo). What was there lies in the trash. */
  'session/truncate': { params: {
  sessionId: string
  /** Messages with a greater seq go. */
  afterSeq: number
}, result: TruncateResult }
  /** Copy a session, or its beginning, into a new one whose `parent` says where it came from. */
  'session/fork': { params: {
  sessionId: string
  /** Up to and with this seq; everything if absent. */
  atSeq?: number | null
  name?: string | null
}, result: SessionResult }
  /** Put a session into the trash, or away for ever. */
  'session/delete': { params: {
  sessionId: string
  /** Also out of trash, index and journal, earlier states and copies of damaged files included. When it is answered no word is left there. It may be sent again after a crash: `sessionNotFound` then means that nothing is left either. */
  permanent?: boolean | null
}, result: Nothing }
  /** Take a session out of the trash. */
  'session/restore': { params: {
  sessionId: string
}, result: SessionResult }
  /** Bring session files up to date now. Without an id it waits for all earlier requests of the connection. */
  'session/save': { params: {
  sessionId?: string | null
}, result: SaveResult }
  /** Move a session to another store and format. */
  'session/move': { params: {
  sessionId: string
  store: string
  dryRun?: boolean | null
}, result: MoveResult }
  /** A page of sessions. Archived and deleted ones only when asked for. */
  'session/list': { params: {
  limit?: number | null
  /** `nextCursor` of the page before. */
  cursor?: string | null
  /** `-updatedAt` if absent. */
  sort?: "-createdAt" | "-messageCount" | "-name" | "-updatedAt" | "createdAt" | "messageCount" | "name" | "updatedAt" | null
  filter?: Filter | null
}, result: ListResult }
  /** Find messages, names and notes. Deleted sessions are never found, archived ones only when asked for. */
  'session/search': { params: {
  query: string
  /** `text` if absent; `semantic` only where `searchModes` of `initialize` has it. */
  mode?: "regex" | "semantic" | "text" | null
  limit?: number | null
  cursor?: string | null
  filter?: SearchFilter | null
}, result: SearchResult }
  /** Write a session in another format, to a file or into the answer. */
  'session/export': { params: {
  sessionId: string
  /** `jsonl` is native and lossless. */
  format: "html" | "json" | "jsonl" | "markdown" | "org" | "text"
  /** Absolute and outside the daemon's own folders; without it the content is answered. */
  path?: string | null
  overwrite?: boolean | null
}, result: ExportResult }
  /** Take in other tools' files. Repeating it adds nothing; a source that has grown grows its session. */
  'session/import': { params: {
  /** A folder is walked. */
  path: string
  /** Recognised if absent. */
  format?: string | null
  store?: string | null
  /** RFC 3339. Sessions in which nothing was said since then are left out. */
  since?: string | null
  dryRun?: boolean | null
  /** `$/progress` is sent with it. */
  workDoneToken?: number | string | null
}, result: ImportResult }
  /** Write a note under a heading. */
  'note/append': { params: {
  sessionId: string
  heading: string
  content: string
  /** Absent: for the whole session. */
  thread?: string | null
  tick?: number | null
  /** Sending the same id again with the same content adds nothing. */
  id?: string | null
}, result: NoteResult }
  /** Read notes. */
  'note/list': { params: {
  sessionId: string
  thread?: string | null
  lastGlobal?: number | null
  lastThread?: number | null
}, result: NoteListResult }
  /** Keep values beside the messages. Does not move `updatedAt`. */
  'state/set': { params: {
  sessionId: string
  /** A null removes its key; equal values are not a change. */
  values: JsonObject
  expectedSeq?: number | null
}, result: SeqResult }
  /** Read values. */
  'state/get': { params: {
  sessionId: string
  keys?: Array<string> | null
}, result: StateResult }
  /** Remove all values. */
  'state/clear': { params: {
  sessionId: string
}, result: SeqResult }
  /** Mount a folder that another system's sessions lie in. It is written to the configuration and takes effect at once. */
  'store/adopt': { params: {
  path: string
  /** The store's name. */
  name?: string | null
  /** Recognised if absent. */
  format?: string | null
}, result: AdoptResult }
  /** Who is there. Frozen for ever. */
  'daemon/hello': { params: {}, result: HelloResult }
  /** Save everything and end the daemon. Frozen for ever. */
  'daemon/stop': { params: {}, result: Nothing }
  /** What runs, where, and how it is. */
  'daemon/status': { params: {}, result: StatusResult }
  /** Acknowledge all `damage` in the status. The daemon stops reporting it. */
  'daemon/acknowledge': { params: {}, result: AcknowledgeResult }
  /** Listen on TCP or WebSocket as long as the asking connection lives. */
  'daemon/listen': { params: {
  kind: "tcp" | "ws"
  /** Loopback if absent. */
  host?: string | null
  /** 0: any free one. */
  port?: number
}, result: Address }
  /** A consistent copy of everything while all goes on, in a new folder. */
  'daemon/backup': { params: {
  /** Absolute, outside all folders that sessiond looks after. Nothing is there yet. */
  path: string
  /** `$/progress` is sent with it. */
  workDoneToken?: number | string | null
}, result: BackupResult }
}

/** What the daemon says by itself: method -> params. */
export interface Notifications {
  'session/changed': Changed
  'session/restored': Restored
  'session/saved': Saved
  'session/reloaded': Reloaded
  'session/deleted': Deleted
  'session/resync': Resync
}
