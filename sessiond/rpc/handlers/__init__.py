"""One short function per method: convert, call the service, convert. Handlers hold no state."""

from sessiond.rpc.handlers import daemon, notes_state, pages, sessions

__all__ = ["daemon", "notes_state", "pages", "sessions"]
