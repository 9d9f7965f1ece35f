// The requests, notifications and types of the protocol. Written from docs/openrpc.json by
//   python -m scripts.browser_types

export type JsonObject = Record<string, unknown>

/** The damage that was acknowledged. */
export interface AcknowledgeResult {
  /** How many entries of `damage` there were. */
  acknowledged: number
}

/** The activity in a session at the moment, as a program that works in it says. A session in which nothing does has none. */
export interface Activity {
  /** `waiting`: for a person. */
  state: "waiting" | "working"
  /** RFC 3339. */
  since: string
  /** Who says so: `clientInfo.name`. */
  client: string
  /** `permission`, `question`, or another word. */
  waitingFor?: string | null
  /** What it does or asks, in a few words. */
  text?: string | null
  /** What `session/ask` asks. Absent: only the program itself takes an answer. */
  question?: Question | null
}

/** Sent to every connection that has the session open when something else goes on in it. */
export interface ActivityChanged {
  sessionId: string
  /** None: nothing goes on any more. */
  activity: Activity | null
}

/** The activity of the caller in a session, until it says something else or its connection ends. */
export interface ActivityParams {
  sessionId: string
  state: "idle" | "waiting" | "working"
  /** `permission`, `question`, or another word. */
  waitingFor?: string | null
  /** What it does or waits for, in a few words: at most 2,000 characters. */
  text?: string | null
  /** The id of the process that does it: then it lasts until that process has ended, and another connection may say the next thing about the same process. For scripts that an agent runs at each event. */
  process?: number | null
  /** The call that is over. With `process`: only the question with this `toolCallId` is withdrawn, because an agent may make several calls at once. */
  toolCallId?: string | null
}

/** The address at which a client that shows the token may connect. */
export interface Address {
  host: string
  port: number
  tokenFile: string
}

/** A folder of one of the supported systems. */
export interface AdoptParams {
  path: string
  /** The store's name. */
  name?: string | null
  /** Detected if absent. */
  format?: string | null
}

/** The new store. It takes effect at once. */
export interface AdoptResult {
  store: StoreStatus
  /** How many are in it. */
  sessions: number
  warnings: Array<FileWarning>
}

/** A place where windows of VS Code connect: a Unix socket, which takes this user's programs without a token, or a port. */
export interface AgentHostAddress {
  /** Whether they may write. */
  write: boolean
  socket?: string
  host?: string
  port?: number
  tokenFile?: string
}

/** The agent host, which shows sessions to windows of VS Code (Agent Host Protocol). */
export interface AgentHostStatus {
  listeners: Array<AgentHostAddress>
  /** Why the daemon does not listen where `[ahp] listen` in `config.toml` says; it tries again. */
  problems: Array<string>
  /** How many are connected. */
  windows: number
  /** The versions that the last window offered which was refused; it shows an empty list, and says nothing. Empty: none was. */
  refused: Array<string>
}

/** The answer to the question of a session's `activity`. */
export interface AnswerParams {
  sessionId: string
  questionId: string
  /** The `id` of one of its choices. */
  choice?: string | null
  /** The answer to a question without choices, or a comment on the choice. */
  text?: string | null
}

/** The outcome of an answer: whether it counts. */
export interface AnswerResult {
  /** false: it was answered before, or nobody asks it any more. */
  accepted: boolean
}

/** Messages to append, all or none. */
export interface AppendParams {
  sessionId: string
  messages: Array<NewMessage>
  /** `conflict` is returned unless this is the session's seq. */
  expectedSeq?: number | null
}

/** Sent only when the messages are durable. */
export interface AppendResult {
  seq: number
  messages: Array<AppendedMessage>
  /** true: the hub of the shared store cannot be reached. The messages are durable on this machine, and come after what others append meanwhile. */
  provisional?: boolean
}

/** An appended message. */
export interface AppendedMessage {
  id: string
  seq: number
}

/** A question to a person. The session is `waiting` until somebody answers it; cancelling the request withdraws it. */
export interface AskParams {
  sessionId: string
  /** At most 2,000 characters. */
  text: string
  /** Absent: any text is an answer. */
  choices?: Array<Choice> | null
  /** `permission`, or another word. Defaults to `question`. */
  waitingFor?: string | null
  /** The call that needs permission. */
  toolCallId?: string | null
  /** The process that waits for the answer: the question is withdrawn (`cancelled`) when `session/activity` says that the process works or is idle, because it goes on without the answer then, and when it has ended. */
  process?: number | null
}

/** The answer. */
export interface AskResult {
  /** Who gave it: `clientInfo.name`. */
  client: string
  /** The `id` of a choice. */
  choice?: string
  text?: string
}

/** Sent to one connection that opened the session with `answers: true`: somebody who brings no model said this, and waits for its answer. What was asked of one that has left is asked of the next one, even before its `session/open` is answered. So after a lost connection the same message may be asked for again. */
export interface Asked {
  sessionId: string
  messageId: string
}

/** The place to write the copy to. */
export interface BackupParams {
  /** Absolute, and outside all folders that sessiond manages. It must not exist yet. */
  path: string
  /** `$/progress` notifications carry this token. */
  workDoneToken?: number | string | null
}

/** A summary of what was copied. */
export interface BackupResult {
  files: number
  bytes: number
  /** The copy has every change that was acknowledged before the journal wrote the record of this number. */
  lsn: number
  /** Files that could not be copied, if any. */
  warnings?: Array<FileWarning>
}

/** One change to a session. `kind` determines which fields are present. */
export interface Change {
  kind: "appended" | "cleared" | "created" | "extended" | "finished" | "note" | "state" | "truncated" | "updated"
  seq: number
  /** `appended`. */
  messages?: Array<Message> | null
  /** `extended`, `finished`. */
  messageId?: string | null
  /** `extended`: the added text. */
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
  /** `state`: null removes a key. */
  values?: JsonObject | null
  /** `state`: after `session/restored`, all state once more. */
  replay?: boolean | null
  /** `truncated`: messages with a greater seq were removed. */
  afterSeq?: number | null
}

/** Sent to every connection that has the session open, except the one that made the change. */
export interface Changed {
  sessionId: string
  seq: number
  changes: Array<Change>
  origin: Origin
  /** After `session/restored`: not a change, but the whole state again. */
  replay?: boolean
}

/** A session that changed after a cursor. */
export interface ChangedSession {
  session: SessionInfo
  /** The seq before the first change after the cursor, or a smaller one. */
  since: number
  /** It was made after the cursor. Any earlier session with its id was another one. */
  begun: boolean
}

/** An answer to choose. */
export interface Choice {
  id: string
  label: string
  /** What it means where permission is asked for. */
  kind?: "allow" | "deny" | null
}

/** The configuration. */
export interface ConfigStatus {
  /** The configuration file's path, whether it is there or not. */
  file: string
  /** Settings by name; defaults are left out. */
  values: JsonObject
}

/** A part of the journal that was durable once and cannot be read. */
export interface Damage {
  /** Where its bytes are kept. */
  path: string
  /** How many records are known to be lost with it. 0: all others could be read. */
  records: number
  /** When it was found. */
  since: string
  reason: string
}

/** The session to delete. */
export interface DeleteParams {
  sessionId: string
  /** Also remove the session from trash, index and journal, with earlier states and copies of damaged files. The response comes when nothing is left there. After a crash the request may be repeated: `sessionNotFound` then also means that nothing is left. */
  permanent?: boolean | null
}

/** The session was deleted, or moved. */
export interface Deleted {
  sessionId: string
  /** Its id now, if somebody moved it to another store. */
  movedTo?: string | null
}

/** The format, and where to write. */
export interface ExportParams {
  sessionId: string
  /** `jsonl` is the native format, and lossless. */
  format: "anthropic" | "html" | "json" | "jsonl" | "markdown" | "openai" | "org" | "text"
  /** Absolute, and outside the daemon's own folders. Without it, the response has the content. */
  path?: string | null
  overwrite?: boolean | null
}

/** `content` if there was no path, otherwise the other two. */
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
  /** The number of code points before the text; makes it safe to repeat the request. */
  offset?: number | null
}

/** A part of a file that could not be understood and was left as it is. */
export interface FileWarning {
  path: string
  /** 1-based; null if the file has no lines. */
  line: number | null
  message: string
}

/** All given conditions must hold. */
export interface Filter {
  store?: string | null
  /** A session must have all of these. */
  tags?: Array<string> | null
  /** true: archived sessions only. false or absent: no archived sessions. */
  archived?: boolean | null
  /** true: deleted sessions only. false or absent: no deleted sessions. */
  deleted?: boolean | null
  /** A model's name, or a whole part of it: `opus`, `opus-4`. */
  model?: string | null
  cwd?: string | null
  /** RFC 3339; compared with `updatedAt`, inclusive. */
  since?: string | null
  /** RFC 3339; compared with `updatedAt`, exclusive. */
  until?: string | null
  /** Part of the name; case is ignored. */
  name?: string | null
  /** The tool that sessions were imported from, such as `codex`; `sessiond`: those that were not imported. */
  tool?: string | null
  /** Sessions whose `parent` is this one: forks, copies, subagents. */
  parent?: string | null
}

/** The end of a streamed message. */
export interface FinishParams {
  sessionId: string
  messageId: string
  /** Defaults to `done`. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  /** Merged into the message's metadata, key by key. */
  metadata?: JsonObject | null
  toolCalls?: Array<ToolCall> | null
}

/** The tools whose histories to import while they are written: exactly `tools`, or those that are followed already, changed. */
export interface FollowParams {
  /** Names of importers, `all`, or `NAME:PATH`, a tool's sessions in another folder or file; empty: none. Null: those that are followed already. */
  tools?: Array<string> | null
  /** To follow as well. */
  add?: Array<string>
  /** To follow no more. Each must be followed. A tool's name also ends its other places. */
  remove?: Array<string>
}

/** Everything that is followed. The tools are kept in the configuration. */
export interface FollowResult {
  tools: Array<string>
  /** Those that exist. */
  places: Array<FollowedPlace>
  /** Files that were written while nobody followed them, and that are still to be read. */
  behind: number
}

/** A folder or file in which a tool keeps its sessions. */
export interface FollowedPlace {
  tool: string
  path: string
  /** How many were new or have changed since the daemon began to follow it. */
  sessions: number
  /** When the last of them came. */
  lastAt: string | null
  /** Why it is not watched, why its last file could not be read, or what shows that the tool writes more than is read. */
  problem: string | null
  /** Files that were written and are still to be read. */
  waiting?: number
  /** How much of these files was not read yet; of a database that is read where it is, nothing counts. None if the place does not answer at once. */
  waitingBytes?: number | null
  /** For how long the first of them has waited. */
  waitingSeconds?: number
  /** How long reading has taken since the daemon began to follow the place. */
  readingSeconds?: number
  /** Whether it is followed only for a client, by `session/follow`, and as long as that stays. */
  asked?: boolean
}

/** The part of a session to copy. */
export interface ForkParams {
  sessionId: string
  /** Copy up to and including this seq; defaults to everything. */
  atSeq?: number | null
  name?: string | null
}

/** Never changes, so that any later version can recognise any earlier one. */
export interface HelloResult {
  protocolVersion: number
  version: string
  pid: number
  instanceId: string
}

/** A message, or a session's name or note (`messageId` null), with the piece of it that shows why it was found. Notes and names lack a `role`; a name has its session's `updatedAt` as timestamp. `ranges` are in order and do not overlap. `score` only grows with relevance: it orders the hits of one result and cannot be compared between results. */
export interface Hit {
  sessionId: string
  name: string | null
  messageId: string | null
  /** Null for a session's name. */
  seq: number | null
  role: string | null
  timestamp: string
  snippet: string
  /** Code points of the snippet, each [start, end), of what was found; empty if only the meaning is near. */
  ranges: Array<Array<number>>
  score: number
}

/** Sent to every connection that is initialized when what is known of the hub of a shared store has changed: at once when the hub is lost or back, and at most once a second while only `pending` or `problem` change, with the last value in any case. The lag alone is not told. */
export interface HubChanged {
  store: string
  hub: HubStatus
}

/** The facts that a shared store knows of its hub. `since`: since when it is in this state (RFC 3339). `pending`: changes that are durable here and not on the hub. `lag`: changes that are on the hub and not here, as far as is known. `problem`: why it cannot be reached, or what is wrong with it. */
export interface HubStatus {
  state: "offline" | "online"
  since: string
  pending: number
  lag: number
  problem: string | null
}

/** A file or folder of another tool. */
export interface ImportParams {
  /** A folder is searched recursively. */
  path: string
  /** Detected if absent. */
  format?: string | null
  store?: string | null
  /** RFC 3339. Sessions without a message since then are left out. */
  since?: string | null
  dryRun?: boolean | null
  /** Also say what was found, tool by tool. */
  report?: boolean | null
  /** `$/progress` notifications carry this token. */
  workDoneToken?: number | string | null
}

/** A folder or file in which another tool keeps its sessions. */
export interface ImportPlace {
  /** Absolute. */
  path: string
  /** Whose files; detected if absent. */
  format?: string | null
}

/** The sessions that were created or have grown, or would be. */
export interface ImportResult {
  sessions: Array<SessionInfo>
  /** Sessions with nothing new. */
  skipped: number
  warnings: Array<FileWarning>
  /** With `since`: files that were not opened, because they have not been modified since then. */
  untouched?: number
  /** Records of kinds that the importers do not know, by `TOOL KIND`, if there are any. */
  unknown?: JsonObject
  /** If it was asked for. */
  report?: Array<ToolReport>
}

/** Sent to a connection that follows places by `session/follow`: what was imported from there, whoever asked for it, and what could not be read. A client that reads slowly is told later, in one notification, with each session once, as it was last. */
export interface Imported {
  sessions: Array<SessionInfo>
  warnings: Array<FileWarning>
}

/** The catalogue and the search index. */
export interface IndexStatus {
  /** `building`: searches may miss something. `failing`: the index cannot be written, and misses what is new. */
  state: "building" | "failing" | "ready"
  /** How many sessions have been read since the last check of the files against the index began, ... */
  read: number
  /** ... of this many that must be; known as soon as all files have been compared, before any is read. */
  found: number
  /** Why it is failing; otherwise which sessions have something that cannot be indexed, if any has. */
  problem: string | null
}

/** Sent to the connections that opened the session with `answers: true`: nobody wants the answer any more. Finish what there is of it as `interrupted`. */
export interface Interrupted {
  sessionId: string
  /** The message whose answer it is, where one is known: it may wait while another one is answered. */
  messageId?: string | null
}

/** The daemon-wide journal. */
export interface JournalStatus {
  bytes: number
  lsn: number
  /** Bytes of what cannot be saved for now. They were moved to `data/held`, so that the journal can be trimmed. */
  held: number
}

/** Sent once for each `session/listChanged` with `tell`, when a session was made, changed, archived, deleted or restored after its result: read the list again, and ask to be told again. Another such request of the connection takes the place of the first. */
export interface ListChanged {
}

/** The place where the last result ended. */
export interface ListChangedParams {
  /** `cursor` of the last result. Without one the result has no sessions, and its `cursor` is of this moment. */
  cursor?: string | null
  limit?: number | null
  /** Send `list/changed` to this connection, once, as soon as something came after the result's `cursor`. */
  tell?: boolean | null
}

/** Sessions in the order in which their last changes arrived, whatever times they bear. Archived ones, too. */
export interface ListChangedResult {
  sessions: Array<ChangedSession>
  /** After these sessions. */
  cursor: string
  /** Others have changed after it already. */
  hasMore: boolean
  /** The daemon has been started since, or so much has happened that it does not know what came after the cursor: compare with `session/list`. `cursor` is of this moment. */
  lost: boolean
}

/** The conditions of every filter, and what only the daemon knows. */
export interface ListFilter {
  store?: string | null
  /** A session must have all of these. */
  tags?: Array<string> | null
  /** true: archived sessions only. false or absent: no archived sessions. */
  archived?: boolean | null
  /** true: deleted sessions only. false or absent: no deleted sessions. */
  deleted?: boolean | null
  /** A model's name, or a whole part of it: `opus`, `opus-4`. */
  model?: string | null
  cwd?: string | null
  /** RFC 3339; compared with `updatedAt`, inclusive. */
  since?: string | null
  /** RFC 3339; compared with `updatedAt`, exclusive. */
  until?: string | null
  /** Part of the name; case is ignored. */
  name?: string | null
  /** The tool that sessions were imported from, such as `codex`; `sessiond`: those that were not imported. */
  tool?: string | null
  /** Sessions whose `parent` is this one: forks, copies, subagents. */
  parent?: string | null
  /** Only sessions in which this goes on. */
  activity?: "waiting" | "working" | null
}

/** A page of sessions. */
export interface ListParams {
  limit?: number | null
  /** `nextCursor` of the previous page. */
  cursor?: string | null
  /** Defaults to `-updatedAt`. */
  sort?: "-createdAt" | "-messageCount" | "-name" | "-updatedAt" | "createdAt" | "messageCount" | "name" | "updatedAt" | null
  filter?: ListFilter | null
}

/** A page of sessions. */
export interface ListResult {
  sessions: Array<SessionInfo>
  nextCursor: string | null
  /** The catalogue is being rebuilt: there may be more sessions, and some may have changed. */
  incomplete?: boolean
}

/** The address to listen on. */
export interface ListenParams {
  /** `ahp`: for windows of VS Code, which speak the Agent Host Protocol; see docs/editors/vscode-agent-host.md. */
  kind: "ahp" | "tcp" | "ws"
  /** Defaults to loopback. */
  host?: string | null
  /** 0: any free one. */
  port?: number
  /** With `ahp`: windows may write as well. They show another token then. */
  write?: boolean | null
}

/** A message of a session, with its current content. */
export interface Message {
  /** `user`, `assistant`, `system`, `tool`, or another word. */
  role: string
  /** Text, or a list of content blocks. */
  content: string | unknown[]
  /** `streaming`: more text will follow with `session/extend`. Absent means done. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  toolCalls?: Array<ToolCall> | null
  /** Role `tool`: the `id` of the call that this message is the result of. */
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
  /** In a shared store: the name of the member who appended it, as the hub knows it, whatever the client sent. In other stores: what the client sent. */
  author?: unknown
  /** The size in bytes of a message that came from a file and is too large for one response. `content` is the beginning of its text, or empty; everything else is left out. `session/export` returns the whole message. */
  cut?: number | null
}

/** The same of one model. */
export interface ModelUsage {
  requests?: number
  input?: number
  cacheRead?: number
  cacheWrite?: number
  output?: number
  reasoning?: number
  /** In US dollars: the sum over the requests whose tool said what they cost. */
  cost?: number
  /** How many requests these are. */
  priced?: number
  /** Null if the messages do not say. */
  model: string | null
}

/** The target store; its format may differ. */
export interface MoveParams {
  sessionId: string
  store: string
  dryRun?: boolean | null
}

/** The session under its new id. */
export interface MoveResult {
  session: SessionInfo
  /** What the new format's own system will not show, in words. */
  lost: Array<string>
}

/** A message as a client sends it. */
export interface NewMessage {
  /** `user`, `assistant`, `system`, `tool`, or another word. */
  role: string
  /** Text, or a list of content blocks. */
  content: string | unknown[]
  /** `streaming`: more text will follow with `session/extend`. Absent means done. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  toolCalls?: Array<ToolCall> | null
  /** Role `tool`: the `id` of the call that this message is the result of. */
  toolCallId?: string | null
  thinking?: string | null
  thread?: string | null
  /** The source system's turn number. */
  tick?: number | null
  contextSnapshot?: unknown
  metadata?: JsonObject | null
  /** 1 to 256 characters; the daemon makes one if absent. Sending the same id again with the same content adds nothing. */
  id?: string | null
  /** RFC 3339; defaults to the time of arrival. */
  timestamp?: string | null
}

/** A new session. Every field is optional. */
export interface NewParams {
  /** Without the store's name: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`. The daemon makes one if absent. */
  sessionId?: string | null
  name?: string | null
  model?: string | null
  cwd?: string | null
  tags?: Array<string> | null
  metadata?: JsonObject | null
  /** Defaults to the default store. */
  store?: string | null
  messages?: Array<NewMessage> | null
  /** The session that it belongs to, as a subagent's belongs to the agent's. That session need not exist yet. */
  parent?: Parent | null
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

/** A note. A new heading is created as needed. */
export interface NoteAppendParams {
  sessionId: string
  heading: string
  content: string
  /** If absent, the note is for the whole session. */
  thread?: string | null
  tick?: number | null
  /** 1 to 256 characters; the daemon makes one if absent. Sending the same id again with the same content adds nothing. */
  id?: string | null
}

/** The notes that are wanted: the global ones and, with `thread`, those of that thread. */
export interface NoteListParams {
  sessionId: string
  thread?: string | null
  lastGlobal?: number | null
  lastThread?: number | null
}

/** The notes, oldest first. Each group is limited separately. */
export interface NoteListResult {
  notes: Array<Note>
}

/** The note as it was saved. */
export interface NoteResult {
  note: Note
}

/** An empty object. */
export interface Nothing {
}

/** `last` and `since` exclude each other. Without either, the newest 200 messages are returned. */
export interface OpenParams {
  sessionId: string
  /** The newest N messages. */
  last?: number | null
  /** Messages and changes with a greater seq. */
  since?: number | null
  /** Send `session/restored` and the whole state after the response, so that every panel is redrawn. */
  restore?: boolean | null
  /** This client answers what others say here, when `session/asked` comes. It does as long as it has the session open. */
  answers?: boolean | null
}

/** The session's content; its changes after `session.seq` follow as `session/changed`. */
export interface OpenResult {
  session: SessionInfo
  messages: Array<Message>
  notes: Array<Note>
  state: JsonObject
  /** This page leaves out some messages. */
  hasMore: boolean
  warnings: Array<FileWarning>
  /** With `since`: every change after it, in order; null if they are no longer known. */
  changes?: Array<Change> | null
}

/** The connection that made a change. */
export interface Origin {
  /** `sessiond` where no client asked for the change; `connection` is 0 then. */
  client: string
  connection: number
}

/** The session that a session came from: a fork, a copy, a subagent. */
export interface Parent {
  sessionId: string
  /** Null where nobody said. */
  seq: number | null
}

/** A question that a program asks a person. Any client may answer it with `session/answer`; the first answer counts. */
export interface Question {
  id: string
  /** Absent: any text is an answer. */
  choices?: Array<Choice> | null
  /** The call that needs permission. */
  toolCallId?: string | null
}

/** The reason why the daemon writes nothing. */
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
  /** Read forwards: messages with a greater seq. */
  since?: number | null
  /** Read backwards: messages with a smaller seq. */
  before?: number | null
  limit?: number | null
}

/** The messages, oldest first. */
export interface ReadResult {
  messages: Array<Message>
  hasMore: boolean
  /** Of the session. */
  seq: number
}

/** The sessions that were tried again. */
export interface ReindexResult {
  sessions: Array<Reindexed>
}

/** A session of which something could not be indexed, and was tried again. */
export interface Reindexed {
  sessionId: string
  /** Why something of it still cannot be found. Null: all of it is searchable now. */
  problem: string | null
}

/** Another program changed the file, and the change was merged: read the session again. `synced`: in a shared store, what was appended here while the hub could not be reached now comes after what others appended meanwhile, so seqs moved. */
export interface Reloaded {
  session: SessionInfo
  reason: "externalEdit" | "synced"
}

/** Sent to a connection that opened the session with `restore: true`, right after the response. */
export interface Restored {
  session: SessionInfo
  messageCount: number
}

/** Sent to a connection that read too slowly, so that notifications were dropped: read again, from the last seq you have. */
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

/** The session file is up to date. */
export interface Saved {
  sessionId: string
  path: string
  bytes: number
  savedAt: string
}

/** A file that is up to date now. */
export interface SavedFile {
  sessionId: string
  path: string
  bytes: number
}

/** The conditions of every filter, with conditions on messages. */
export interface SearchFilter {
  store?: string | null
  /** A session must have all of these. */
  tags?: Array<string> | null
  /** true: archived sessions only. false or absent: no archived sessions. */
  archived?: boolean | null
  /** true: deleted sessions only. false or absent: no deleted sessions. */
  deleted?: boolean | null
  /** A model's name, or a whole part of it: `opus`, `opus-4`. */
  model?: string | null
  cwd?: string | null
  /** RFC 3339; compared with `updatedAt`, inclusive. */
  since?: string | null
  /** RFC 3339; compared with `updatedAt`, exclusive. */
  until?: string | null
  /** Part of the name; case is ignored. */
  name?: string | null
  /** The tool that sessions were imported from, such as `codex`; `sessiond`: those that were not imported. */
  tool?: string | null
  /** Sessions whose `parent` is this one: forks, copies, subagents. */
  parent?: string | null
  role?: string | null
  sessionId?: string | null
}

/** The query to look for. */
export interface SearchParams {
  query: string
  /** Defaults to `text`; `semantic` works only if `searchModes` of `initialize` lists it. */
  mode?: "regex" | "semantic" | "text" | null
  limit?: number | null
  cursor?: string | null
  filter?: SearchFilter | null
}

/** A page of hits. */
export interface SearchResult {
  hits: Array<Hit>
  /** Exact, and the same on every page. For `semantic`: what the words find plus the 200 nearest. */
  total: number
  nextCursor: string | null
  /** The index is being rebuilt, or vectors are being computed, or sessions are being fetched from a hub: there may be more. */
  incomplete?: boolean
  /** How many sessions of shared stores were not searched, because this machine only lists them so far. */
  unfetched?: number
}

/** The session's seq after the change. */
export interface SeqResult {
  seq: number
}

/** The places to import from while they are written, as long as the caller stays connected. */
export interface SessionFollowParams {
  places: Array<ImportPlace>
  store?: string | null
  /** RFC 3339. Of a file that must be read whole, sessions without a message since then are left out. */
  since?: string | null
}

/** A session as a list shows it. */
export interface SessionInfo {
  /** `ID` in the default store, `STORE/ID` in another. */
  sessionId: string
  name: string | null
  createdAt: string
  updatedAt: string
  model: string | null
  messageCount: number
  /** Of the newest change in the session. */
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
  /** Without the `records` of an imported session, which may be large: `session/export` has them. */
  metadata: JsonObject
  /** How many connections have it open. */
  attached: number
  /** The session file is behind the journal. */
  dirty: boolean
  /** Fields that are left out because they are too large for one response; they came from a file. */
  cut?: Array<string>
  /** What goes on in it. Left out if nothing does. */
  activity?: Activity
  /** In a shared store: how many changes are durable here and still wait for the hub. Left out if there are none. */
  provisional?: number
  /** In the trash: when it was moved there. */
  deletedAt?: string
  /** In the trash: why, such as `deleted`, `cleared` or `truncated`. */
  reason?: string
}

/** Identifies a session. */
export interface SessionParams {
  sessionId: string
}

/** The session as it is now. */
export interface SessionResult {
  session: SessionInfo
}

/** A setting that is not the default. */
export interface SettingStatus {
  value: unknown
  /** `flag`, `environment`, or the file's path. */
  source: string
}

/** The keys that are wanted. Defaults to all. */
export interface StateGetParams {
  sessionId: string
  keys?: Array<string> | null
}

/** The current state. */
export interface StateResult {
  values: JsonObject
  /** When it last changed. */
  savedAt: string | null
}

/** Values that a tool keeps with a session. */
export interface StateSetParams {
  sessionId: string
  /** null removes a key; an equal value is not a change. */
  values: JsonObject
  expectedSeq?: number | null
}

/** The state of the daemon. */
export interface StatusResult {
  version: string
  pid: number
  instanceId: string
  startedAt: string
  dataDir: string
  socket: string | null
  tcp: Address | null
  ws: Address | null
  ahp: AgentHostStatus | null
  stores: Array<StoreStatus>
  connections: number
  /** The name that a client gave with `initialize` -> how many connections have it. */
  clients: JsonObject
  openSessions: number
  dirtySessions: number
  journal: JournalStatus
  /** To the journal, until it is acknowledged. */
  damage: Array<Damage>
  readOnly: ReadOnlyStatus | null
  index: IndexStatus
  limits: JsonObject
  config: ConfigStatus
}

/** The reason why a store cannot be reached or written. */
export interface StoreProblem {
  /** `saveFailed`: the save of one session failed and is tried again. */
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
  /** Of a shared store. */
  hub?: HubStatus
}

/** The usage of a number of requests to models. `input` is what was sent without the tokens that were read from the model's cache or written to it; `reasoning` is a part of `output`. */
export interface TokenTotals {
  requests?: number
  input?: number
  cacheRead?: number
  cacheWrite?: number
  output?: number
  reasoning?: number
  /** In US dollars: the sum over the requests whose tool said what they cost. */
  cost?: number
  /** How many requests these are. */
  priced?: number
}

/** A call that an assistant's message makes. Its result is a message of role `tool` whose `toolCallId` is this `id`. */
export interface ToolCall {
  id: string
  name: string
  arguments: JsonObject | string
}

/** A report of what an import found of one tool. */
export interface ToolReport {
  tool: string
  /** Files of the tool that were found. */
  files: number
  /** Those of them that were not read, because they were read to their end in their present version. */
  unchanged: number
  /** Sessions that were created or have changed. */
  sessions: number
  /** Messages that are new. */
  messages: number
  /** Sessions that were read and had nothing new, or were not read. */
  nothingNew: number
  /** Records that hold nothing that a person or a model wrote, by kind. */
  ignored: JsonObject
  /** Records of kinds that the importer does not know, by kind; they are kept as they are. `table NAME`: rows of a database that nobody reads, and that are newer than what was read. */
  unknown: JsonObject
  /** Lines and files that were skipped or mended; `warnings` says which. */
  warnings: number
  /** The time of the newest record in the files that were read, RFC 3339. */
  newest?: string
  /** When the last of these files was written. If that is days later, the tool may have moved to what nobody reads. */
  written?: string
}

/** The place to cut at. */
export interface TruncateParams {
  sessionId: string
  /** Messages with a greater seq are removed. */
  afterSeq: number
  /** `conflict` is returned unless this is the session's seq. */
  expectedSeq?: number | null
}

/** The session, and how many messages were removed. They are in the trash, as a session `ID.was-SEQ`. */
export interface TruncateResult {
  session: SessionInfo
  removed: number
}

/** Only the given fields change; null clears name, model, summary and cwd. */
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

/** The way to count what requests to models used. */
export interface UsageParams {
  by?: "day" | "model" | "month" | "project" | "session" | "tool"
  /** RFC 3339; compared with the time of the message, inclusive. */
  since?: string | null
  /** RFC 3339; compared with the time of the message, exclusive. */
  until?: string | null
  /** Only sessions of this tool; `sessiond` for those that were not imported. */
  tool?: string | null
  /** In which days and months are counted, such as `Europe/Berlin`. Defaults to the daemon's. */
  timeZone?: string | null
  /** Rows; defaults to 1000, at most 10000. If there are more, the oldest or the least used are omitted. */
  limit?: number | null
  /** Of sessions. Archived sessions count too, unless it says otherwise. */
  filter?: Filter | null
}

/** Days and months in order of time, anything else the most used first. */
export interface UsageResult {
  rows: Array<UsageRow>
  /** How many rows there are beyond the `limit`; the total includes them. */
  omitted: number
  sessions: number
  total: TokenTotals
  models: Array<ModelUsage>
  timeZone: string
  /** The index is being rebuilt: there may be more. */
  incomplete?: boolean
}

/** A day, model, tool, project or session. */
export interface UsageRow {
  /** `YYYY-MM-DD` (months: `YYYY-MM`), the model, the tool (`sessiond` for sessions that were not imported), the folder, or the id of the session. Null if it is unknown. */
  key: string | null
  /** Of the session; null for anything else. */
  name: string | null
  sessions: number
  total: TokenTotals
  /** The most used first. */
  models: Array<ModelUsage>
}

/** Method -> its params and its result. */
export interface Requests {
  /** Make a session. The caller has it open. */
  'session/new': { params: {
  /** Without the store's name: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`. The daemon makes one if absent. */
  sessionId?: string | null
  name?: string | null
  model?: string | null
  cwd?: string | null
  tags?: Array<string> | null
  metadata?: JsonObject | null
  /** Defaults to the default store. */
  store?: string | null
  messages?: Array<NewMessage> | null
  /** The session that it belongs to, as a subagent's belongs to the agent's. That session need not exist yet. */
  parent?: Parent | null
}, result: SessionResult }
  /** Read a session and get its changes from `session.seq` on, none missed, none twice. */
  'session/open': { params: {
  sessionId: string
  /** The newest N messages. */
  last?: number | null
  /** Messages and changes with a greater seq. */
  since?: number | null
  /** Send `session/restored` and the whole state after the response, so that every panel is redrawn. */
  restore?: boolean | null
  /** This client answers what others say here, when `session/asked` comes. It does as long as it has the session open. */
  answers?: boolean | null
}, result: OpenResult }
  /** Stop receiving changes. The session is saved if no other connection has it open. */
  'session/close': { params: {
  sessionId: string
}, result: Nothing }
  /** Append messages, all or none. The response comes only when they are durable. After a lost response, repeat the request with the same ids. */
  'session/append': { params: {
  sessionId: string
  messages: Array<NewMessage>
  /** `conflict` is returned unless this is the session's seq. */
  expectedSeq?: number | null
}, result: AppendResult }
  /** Add text to a message that was appended with `status: "streaming"`. May also be sent as a notification: the text is then durable within a second. */
  'session/extend': { params: {
  sessionId: string
  messageId: string
  text: string
  /** The number of code points before the text; makes it safe to repeat the request. */
  offset?: number | null
}, result: SeqResult }
  /** End a streamed message. */
  'session/finish': { params: {
  sessionId: string
  messageId: string
  /** Defaults to `done`. */
  status?: "done" | "error" | "interrupted" | "streaming" | null
  /** Merged into the message's metadata, key by key. */
  metadata?: JsonObject | null
  toolCalls?: Array<ToolCall> | null
}, result: SeqResult }
  /** Say what the caller does in a session: it works, or waits for a person. That is not kept in a file: it ends with the connection, or with the process that is named. */
  'session/activity': { params: {
  sessionId: string
  state: "idle" | "waiting" | "working"
  /** `permission`, `question`, or another word. */
  waitingFor?: string | null
  /** What it does or waits for, in a few words: at most 2,000 characters. */
  text?: string | null
  /** The id of the process that does it: then it lasts until that process has ended, and another connection may say the next thing about the same process. For scripts that an agent runs at each event. */
  process?: number | null
  /** The call that is over. With `process`: only the question with this `toolCallId` is withdrawn, because an agent may make several calls at once. */
  toolCallId?: string | null
}, result: Nothing }
  /** Ask whoever looks at a session, in any client. The response is the first answer, however long that takes. */
  'session/ask': { params: {
  sessionId: string
  /** At most 2,000 characters. */
  text: string
  /** Absent: any text is an answer. */
  choices?: Array<Choice> | null
  /** `permission`, or another word. Defaults to `question`. */
  waitingFor?: string | null
  /** The call that needs permission. */
  toolCallId?: string | null
  /** The process that waits for the answer: the question is withdrawn (`cancelled`) when `session/activity` says that the process works or is idle, because it goes on without the answer then, and when it has ended. */
  process?: number | null
}, result: AskResult }
  /** Answer the question of a session's `activity`. The first answer counts. */
  'session/answer': { params: {
  sessionId: string
  questionId: string
  /** The `id` of one of its choices. */
  choice?: string | null
  /** The answer to a question without choices, or a comment on the choice. */
  text?: string | null
}, result: AnswerResult }
  /** Read a page of messages without opening the session. */
  'session/read': { params: {
  sessionId: string
  last?: number | null
  /** Read forwards: messages with a greater seq. */
  since?: number | null
  /** Read backwards: messages with a smaller seq. */
  before?: number | null
  limit?: number | null
}, result: ReadResult }
  /** Change what a session says about itself: its name, model, tags and so on. */
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
  /** Remove all messages and the summary. The id stays. The old content goes to the trash. */
  'session/clear': { params: {
  sessionId: string
}, result: SessionResult }
  /** Remove the newest messages (undo). They go to the trash. */
  'session/truncate': { params: {
  sessionId: string
  /** Messages with a greater seq are removed. */
  afterSeq: number
  /** `conflict` is returned unless this is the session's seq. */
  expectedSeq?: number | null
}, result: TruncateResult }
  /** Copy a session, or its beginning, into a new one whose `parent` says where it came from. */
  'session/fork': { params: {
  sessionId: string
  /** Copy up to and including this seq; defaults to everything. */
  atSeq?: number | null
  name?: string | null
}, result: SessionResult }
  /** Move a session to the trash, or delete it permanently. */
  'session/delete': { params: {
  sessionId: string
  /** Also remove the session from trash, index and journal, with earlier states and copies of damaged files. The response comes when nothing is left there. After a crash the request may be repeated: `sessionNotFound` then also means that nothing is left. */
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
  /** Return a page of sessions. Archived and deleted sessions are included only on request. */
  'session/list': { params: {
  limit?: number | null
  /** `nextCursor` of the previous page. */
  cursor?: string | null
  /** Defaults to `-updatedAt`. */
  sort?: "-createdAt" | "-messageCount" | "-name" | "-updatedAt" | "createdAt" | "messageCount" | "name" | "updatedAt" | null
  filter?: ListFilter | null
}, result: ListResult }
  /** Return the sessions that changed after a cursor, in the order in which the changes arrived. */
  'session/listChanged': { params: {
  /** `cursor` of the last result. Without one the result has no sessions, and its `cursor` is of this moment. */
  cursor?: string | null
  limit?: number | null
  /** Send `list/changed` to this connection, once, as soon as something came after the result's `cursor`. */
  tell?: boolean | null
}, result: ListChangedResult }
  /** Find messages, names and notes. Deleted sessions are never found, archived ones only on request. */
  'session/search': { params: {
  query: string
  /** Defaults to `text`; `semantic` works only if `searchModes` of `initialize` lists it. */
  mode?: "regex" | "semantic" | "text" | null
  limit?: number | null
  cursor?: string | null
  filter?: SearchFilter | null
}, result: SearchResult }
  /** Count the tokens that messages report (`metadata.tokens`). Each request to a model counts once. */
  'session/usage': { params: {
  by?: "day" | "model" | "month" | "project" | "session" | "tool"
  /** RFC 3339; compared with the time of the message, inclusive. */
  since?: string | null
  /** RFC 3339; compared with the time of the message, exclusive. */
  until?: string | null
  /** Only sessions of this tool; `sessiond` for those that were not imported. */
  tool?: string | null
  /** In which days and months are counted, such as `Europe/Berlin`. Defaults to the daemon's. */
  timeZone?: string | null
  /** Rows; defaults to 1000, at most 10000. If there are more, the oldest or the least used are omitted. */
  limit?: number | null
  /** Of sessions. Archived sessions count too, unless it says otherwise. */
  filter?: Filter | null
}, result: UsageResult }
  /** Write a session in another format, to a file or into the response. */
  'session/export': { params: {
  sessionId: string
  /** `jsonl` is the native format, and lossless. */
  format: "anthropic" | "html" | "json" | "jsonl" | "markdown" | "openai" | "org" | "text"
  /** Absolute, and outside the daemon's own folders. Without it, the response has the content. */
  path?: string | null
  overwrite?: boolean | null
}, result: ExportResult }
  /** Import other tools' files. Importing them again adds nothing; if a source has grown, its session grows. */
  'session/import': { params: {
  /** A folder is searched recursively. */
  path: string
  /** Detected if absent. */
  format?: string | null
  store?: string | null
  /** RFC 3339. Sessions without a message since then are left out. */
  since?: string | null
  dryRun?: boolean | null
  /** Also say what was found, tool by tool. */
  report?: boolean | null
  /** `$/progress` notifications carry this token. */
  workDoneToken?: number | string | null
}, result: ImportResult }
  /** Import what is written at these places from now on, as long as the caller stays connected. What came is told by `session/imported`. */
  'session/follow': { params: {
  places: Array<ImportPlace>
  store?: string | null
  /** RFC 3339. Of a file that must be read whole, sessions without a message since then are left out. */
  since?: string | null
}, result: Nothing }
  /** Write a note under a heading. */
  'note/append': { params: {
  sessionId: string
  heading: string
  content: string
  /** If absent, the note is for the whole session. */
  thread?: string | null
  tick?: number | null
  /** 1 to 256 characters; the daemon makes one if absent. Sending the same id again with the same content adds nothing. */
  id?: string | null
}, result: NoteResult }
  /** Read notes. */
  'note/list': { params: {
  sessionId: string
  thread?: string | null
  lastGlobal?: number | null
  lastThread?: number | null
}, result: NoteListResult }
  /** Keep values with the session. Does not change `updatedAt`. */
  'state/set': { params: {
  sessionId: string
  /** null removes a key; an equal value is not a change. */
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
  /** Mount a folder with another system's sessions. It is added to the configuration and takes effect at once. */
  'store/adopt': { params: {
  path: string
  /** The store's name. */
  name?: string | null
  /** Detected if absent. */
  format?: string | null
}, result: AdoptResult }
  /** Identify the daemon. This method never changes. */
  'daemon/hello': { params: {}, result: HelloResult }
  /** Save everything and stop the daemon. This method never changes. */
  'daemon/stop': { params: {}, result: Nothing }
  /** Report what the daemon is doing, where, and any problems. */
  'daemon/status': { params: {}, result: StatusResult }
  /** Acknowledge all `damage` in the status. The daemon stops reporting it. */
  'daemon/acknowledge': { params: {}, result: AcknowledgeResult }
  /** Try again what could not be indexed: the sessions that `index.problem` in the status names, and the others like them. */
  'daemon/reindex': { params: {}, result: ReindexResult }
  /** Listen on TCP or WebSocket while the requesting connection is open. */
  'daemon/listen': { params: {
  /** `ahp`: for windows of VS Code, which speak the Agent Host Protocol; see docs/editors/vscode-agent-host.md. */
  kind: "ahp" | "tcp" | "ws"
  /** Defaults to loopback. */
  host?: string | null
  /** 0: any free one. */
  port?: number
  /** With `ahp`: windows may write as well. They show another token then. */
  write?: boolean | null
}, result: Address }
  /** Make a consistent copy of everything in a new folder, while the daemon keeps working. */
  'daemon/backup': { params: {
  /** Absolute, and outside all folders that sessiond manages. It must not exist yet. */
  path: string
  /** `$/progress` notifications carry this token. */
  workDoneToken?: number | string | null
}, result: BackupResult }
  /** Import what other tools write while they write it, now and from every start on. Without parameters, only report. */
  'daemon/follow': { params: {
  /** Names of importers, `all`, or `NAME:PATH`, a tool's sessions in another folder or file; empty: none. Null: those that are followed already. */
  tools?: Array<string> | null
  /** To follow as well. */
  add?: Array<string>
  /** To follow no more. Each must be followed. A tool's name also ends its other places. */
  remove?: Array<string>
}, result: FollowResult }
}

/** What the daemon says by itself: method -> params. */
export interface Notifications {
  'session/changed': Changed
  'session/restored': Restored
  'session/saved': Saved
  'session/reloaded': Reloaded
  'session/deleted': Deleted
  'session/resync': Resync
  'session/asked': Asked
  'session/interrupted': Interrupted
  'session/activityChanged': ActivityChanged
  'session/imported': Imported
  'list/changed': ListChanged
  'store/hubChanged': HubChanged
}
