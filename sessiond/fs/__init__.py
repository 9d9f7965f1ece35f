"""The one door to the operating system: every change to a file of the data folder or of a store goes through here.

`FileSystem` (port) is synchronous, small, and exact about durability. `RealFileSystem` (real) is the disk; the tests have a
fake that crashes faithfully. `off_loop` (asynchronous) runs any of it on a thread, by means of aiofiles. Every method raises
the system's OSError unchanged; `DiskFailed`, itself an OSError, says that the state of the disk is unknown.
"""

from sessiond.fs.asynchronous import (
    FOLLOWING,
    IMPORT_PLACES,
    IMPORTING,
    NAMED,
    Threads,
    off_loop,
    off_loop_to_save,
    on_one_thread,
)
from sessiond.fs.atomic import atomic_write, is_temporary
from sessiond.fs.port import DiskFailed, FileSystem, Hint, Linked, Lock, LogFile, Stat
from sessiond.fs.real import RealFileSystem

__all__ = [
    "FOLLOWING",
    "IMPORTING",
    "IMPORT_PLACES",
    "NAMED",
    "DiskFailed",
    "FileSystem",
    "Hint",
    "Linked",
    "Lock",
    "LogFile",
    "RealFileSystem",
    "Stat",
    "Threads",
    "atomic_write",
    "is_temporary",
    "off_loop",
    "off_loop_to_save",
    "on_one_thread",
]
