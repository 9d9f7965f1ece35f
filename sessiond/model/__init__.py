"""The domain: messages, notes, changes and sessions. Values and pure functions; no I/O, no clock, no await."""
