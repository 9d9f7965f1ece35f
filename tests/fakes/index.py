"""An index that simply remembers what it was fed."""

from __future__ import annotations

from sessiond.index.values import IndexedInfo, ListQuery, SearchPage, SearchQuery, SessionPage


class FakeIndex:
    def __init__(self) -> None:
        self.infos: dict[str, IndexedInfo] = {}
        self.messages: dict[str, dict[str, str]] = {}
        self.incomplete = False
        self.problem = None
        self.left_out: list[str] = []

    def why_left_out(self, session_id):
        return "it is odd" if session_id in self.left_out else None

    def put_info(self, info):
        self.infos[info.session_id] = info

    def put_saved(self, info):
        self.put_info(info)

    def add_messages(self, session_id, messages):
        self.messages.setdefault(session_id, {}).update({m.id: m.text() for m in messages})

    def add_note(self, session_id, note):
        self.messages.setdefault(session_id, {})[note.id] = note.content

    def drop_after(self, session_id, seq):
        self.messages[session_id] = {}

    def put_session(self, info, messages, notes):
        self.put_info(info)
        self.messages[info.session_id] = {m.id: m.text() for m in messages}

    async def put_long_session(self, info, messages, notes):
        self.put_session(info, messages, notes)

    def begin_session(self, info, message_ids, note_ids):
        self.put_info(info)
        return 0

    def add_part(self, session_id, messages):
        self.add_messages(session_id, messages)

    def end_session(self, info, notes, stamp):
        self.put_info(info)
        for note in notes:
            self.add_note(info.session_id, note)

    def remove(self, session_id):
        self.infos.pop(session_id, None)
        self.messages.pop(session_id, None)

    async def settled(self, patience_s=None):
        return None

    def listable(self):
        return True

    erasing = False

    async def erased(self):
        return True

    async def room(self):
        return None

    async def fingerprints(self, store):
        return {}

    async def sessions_beyond(self, stores):
        return []

    async def info(self, session_id):
        return self.infos.get(session_id)

    async def list(self, query: ListQuery):
        return SessionPage(items=sorted(self.infos.values(), key=lambda i: i.updated_at, reverse=True)[: query.limit])

    async def search(self, query: SearchQuery):
        return SearchPage(hits=[], total=0)

    async def count(self, store):
        return len(self.infos)

    async def close(self):
        return None
