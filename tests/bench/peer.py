"""One peer in a separate process: `PYTHON peer.py WHICH FOLDER`. For a number on stdin it makes that many durable appends of
500 bytes; on stdout it prints the seconds of each, as a JSON list. Runs in the peer's own environment, so it imports nothing
of ours.
"""

import asyncio
import json
import os
import sqlite3
import sys
import time

TEXT = "x" * 500


class Log:
    """The limit: one write and one fdatasync."""

    def __init__(self, folder):
        self.file = os.open(f"{folder}/raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def append(self):
        os.write(self.file, TEXT.encode())
        os.fdatasync(self.file)


class Sqlite:
    """Stdlib sqlite3, WAL, synchronous=FULL."""

    def __init__(self, folder):
        self.db = sqlite3.connect(f"{folder}/peer.db", isolation_level=None, timeout=60)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=full")
        self.db.execute("create table if not exists m (id integer primary key, session text, content text)")
        self.db.execute("create index if not exists s on m (session, id)")

    def append(self):
        self.db.execute("insert into m (session, content) values ('s', ?)", (TEXT,))


class Agents:
    """openai-agents' SQLiteSession (WAL; SQLite's default FULL)."""

    def __init__(self, folder):
        from agents import SQLiteSession

        self.session = SQLiteSession("s", f"{folder}/agents.db")

    async def append(self):
        await self.session.add_items([{"role": "user", "content": TEXT}])


class Langgraph:
    """langgraph-checkpoint-sqlite: one message as one pending write, its cheapest durable step."""

    def __init__(self, folder):
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self.number = 0
        self.kind = AsyncSqliteSaver
        self.connection = aiosqlite.connect(f"{folder}/langgraph.db")
        self.saver = None

    async def append(self):
        if self.saver is None:
            self.saver = self.kind(await self.connection)
            await self.saver.setup()
        self.number += 1
        config = {"configurable": {"thread_id": "s", "checkpoint_ns": "", "checkpoint_id": "1"}}
        await self.saver.aput_writes(config, [("messages", TEXT)], f"task-{self.number}")


class LangchainSql:
    """langchain-community's SQLChatMessageHistory on SQLite."""

    def __init__(self, folder):
        from langchain_community.chat_message_histories import SQLChatMessageHistory

        self.history = SQLChatMessageHistory("s", connection=f"sqlite:///{folder}/langchain.db")

    def append(self):
        self.history.add_user_message(TEXT)


class LangchainFile:
    """langchain-community's FileChatMessageHistory: the whole file again each time, not synced."""

    def __init__(self, folder):
        from langchain_community.chat_message_histories import FileChatMessageHistory

        self.history = FileChatMessageHistory(f"{folder}/langchain.json")

    def append(self):
        self.history.add_user_message(TEXT)


class Llm:
    """llm's LogStore."""

    def __init__(self, folder):
        import llm
        import sqlite_utils
        from llm.logs import LogStore

        self.store = LogStore(sqlite_utils.Database(f"{folder}/llm.db"))
        self.thread = self.store.ensure_thread("s")
        self.user = llm.user
        self.number = 0

    def append(self):
        self.number += 1
        self.store.append(self.thread, [self.user(f"{self.number} {TEXT}"[:500])])


PEERS = {
    "log": Log, "sqlite": Sqlite, "agents": Agents, "langgraph": Langgraph, "langchain-sql": LangchainSql, "langchain-file": LangchainFile,
    "llm": Llm,
}  # fmt: skip


async def main(which, folder):
    peer = PEERS[which](folder)
    loop = asyncio.get_running_loop()
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            waiting = peer.append()
            if waiting is not None:
                await waiting
            times.append(time.perf_counter() - start)
        print(json.dumps(times), flush=True)
    os._exit(0)  # a peer's own threads need not be waited for


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
