"""Keeps every change, durable before it is acknowledged. docs/formats/journal.md describes the format.

record, scanner, replay: bytes and values, no I/O. recovery, purge: what is on the disk, and what to do about it. segments:
the one state machine that changes it. writer: its thread, and the futures of the waiting callers.
"""

from sessiond.journal.damage import Loss
from sessiond.journal.recovery import DamagedRange
from sessiond.journal.replay import Key
from sessiond.journal.segments import JournalExtent, ReadOnlyState
from sessiond.journal.writer import JournalWriter, Recovery

__all__ = ["DamagedRange", "JournalExtent", "JournalWriter", "Key", "Loss", "ReadOnlyState", "Recovery"]
