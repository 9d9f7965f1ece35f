"""The tables of opencode's database, as far as they are read."""

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, title TEXT, directory TEXT,
  time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE INDEX message_session ON message (session_id);
CREATE INDEX part_message ON part (message_id);
CREATE INDEX part_session ON part (session_id);
"""
