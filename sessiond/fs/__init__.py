"""The one door to the operating system: what changes a file of the data folder or of a store goes through here.

`FileSystem` (port) is synchronous, small, and exact about durability. `RealFileSystem` (real) is the disk; the tests
have a fake that crashes faithfully. `off_loop` (asynchronous) takes any of it to a thread, by way of aiofiles. Every
method raises OSError as the system gave it; `DiskFailed`, itself an OSError, says that what is on the disk is no longer
known.
"""

from sessiond.fs.asynchronous import off_loop, off_loop_to_save, on_one_thread
from sessiond.fs.atomic import atomic_write, is_temporary
from sessiond.fs.port import DiskFailed, FileSystem, Hint, Linked, Lock, LogFile, Stat
from sessiond.fs.real import RealFileSystem

__all__ = [
    "DiskFailed",
    "FileSystem",
    "Hint",
    "Linked",
    "Lock",
    "LogFile",
    "RealFileSystem",
    "Stat",
    "atomic_write",
    "is_temporary",
    "off_loop",
    "off_loop_to_save",
    "on_one_thread",
]
