"""A backup as one encrypted file: a tar archive in pieces, each sealed with AES-256-GCM.

    header   MAGIC, the key's id (8 hexadecimal digits), LF, 16 random bytes
    pieces   length (4 bytes, big-endian), then so many bytes: the sealed piece with its tag

The key of the file is derived from the key and the random bytes, so no two files share one. A piece's nonce is its number and
whether it is the last. So a piece that is missing, repeated, moved, changed or cut off is noticed before anything is made of it.
`cryptography` is imported here only: a backup without a key does not need it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from sessiond.errors import AlreadyExists, BadFile, ConfigError
from sessiond.fs import FileSystem
from sessiond.hub.keys import Key

MAGIC = b"sessiond-backup-1\n"
PIECE_BYTES = 1 << 20
_TAG_BYTES = 16
_SALT_BYTES = 16
_OTHER_COPY = "take another copy of it"
_LENGTH = struct.Struct(">I")
_NONCE = struct.Struct(">QI")


def seal_folder(fs: FileSystem, folder: str, path: str, key: Key) -> int:
    """Write everything in `folder` to the new file `path`, which appears complete and synced, or not at all. Returns its bytes.
    AlreadyExists, OSError.
    """
    made = f"{path}.part"
    must_be_free(path)
    descriptor = _begun(made)
    try:
        with open(descriptor, "wb") as file:
            writer = _Sealer(file, key)
            with tarfile.open(fileobj=writer, mode="w|", format=tarfile.PAX_FORMAT, bufsize=PIECE_BYTES) as archive:  # type: ignore[call-overload]
                archive.add(folder, arcname=".", filter=_without_owner)
            writer.finish()
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        _give_name(fs, made, path)
    finally:
        with suppress(FileNotFoundError):
            fs.remove(made)
    fs.sync_dir(os.path.dirname(path))
    return size


def _begun(made: str) -> int:
    """Open the file to write to: a new one, or one that a killed backup has left. AlreadyExists if it is anybody else's."""
    with suppress(FileExistsError):
        return _locked(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with suppress(OSError):  # a link, another backup's that is being written, or a file that only others may write
        # O_NONBLOCK: a pipe would wait for its reader.
        descriptor = _locked(os.open(made, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK))
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and os.pread(descriptor, len(MAGIC), 0) == MAGIC:
            os.ftruncate(descriptor, 0)
            return descriptor
        os.close(descriptor)
    raise AlreadyExists(f"{made} is in the way", hint="move it away, or choose another name", path=made)


def _locked(descriptor: int) -> int:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def must_be_free(path: str) -> None:
    """AlreadyExists: nothing is written over."""
    if os.path.lexists(path):
        raise AlreadyExists(f"{path} already exists", hint="choose another name", path=path)


def _give_name(fs: FileSystem, made: str, path: str) -> None:
    try:
        fs.link(made, path)  # unlike a rename it never replaces anything
    except FileExistsError:
        must_be_free(path)
        raise
    except OSError:  # a memory stick's file system has no links
        must_be_free(path)
        fs.replace(made, path)


def unseal(path: str, keys: Sequence[Key], folder: str) -> None:
    """Write what the file holds into `folder`, which exists and is empty. BadFile: it is damaged, or not such a file; then a part
    of it may have been written. ConfigError: it was sealed with another key.
    """
    with open(path, "rb") as file:
        reader = _Opener(file, path, keys)
        try:
            with tarfile.open(fileobj=reader, mode="r|", bufsize=PIECE_BYTES) as archive:  # type: ignore[call-overload]
                archive.extractall(folder, filter=_private)  # noqa: S202 -- the filter holds them to the folder
        except tarfile.TarError as error:  # the pieces are right, so somebody with the key made it
            raise BadFile(f"{path} does not hold a backup: {error}", path=path, hint=_OTHER_COPY) from None
        reader.read_to_end()


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _private(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Nothing is written outside of the folder, and others can read nothing."""
    kept = tarfile.data_filter(member, folder)
    return kept.replace(mode=0o700, deep=False) if kept is not None and kept.isdir() else kept


class _Sealer:
    """Takes bytes, and writes sealed pieces. `finish` at the end."""

    def __init__(self, file: IO[bytes], key: Key) -> None:
        salt = os.urandom(_SALT_BYTES)
        self._header = MAGIC + key.id.encode() + b"\n" + salt
        self._cipher = _cipher(key, salt)
        self._file = file
        self._waiting = bytearray()
        self._number = 0
        file.write(self._header)

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > PIECE_BYTES:  # one is kept back: it may be the last
            self._put(bytes(self._waiting[:PIECE_BYTES]), last=False)
            del self._waiting[:PIECE_BYTES]
        return len(data)

    def finish(self) -> None:
        self._put(bytes(self._waiting), last=True)

    def _put(self, piece: bytes, *, last: bool) -> None:
        sealed = self._cipher.encrypt(_NONCE.pack(self._number, last), piece, self._header)
        self._number += 1
        self._file.write(_LENGTH.pack(len(sealed)) + sealed)


class _Opener:
    """Reads sealed pieces, and gives bytes. BadFile, ConfigError."""

    def __init__(self, file: IO[bytes], path: str, keys: Sequence[Key]) -> None:
        self._file, self._path = file, path
        self._header = file.read(len(MAGIC) + 9 + _SALT_BYTES)
        if not self._header.startswith(MAGIC) or len(self._header) != len(MAGIC) + 9 + _SALT_BYTES:
            raise BadFile(
                f"{path} is not an encrypted backup, or its beginning is damaged", path=path, hint=_OTHER_COPY
            )
        wanted = self._header[len(MAGIC) : len(MAGIC) + 8].decode("ascii", "replace")
        key = next((one for one in keys if one.id == wanted), None)
        if key is None:
            raise ConfigError(
                f"{path} was encrypted with the key {wanted}, which the key file does not hold",
                hint="give the key file that was used when it was made",
            )
        self._cipher = _cipher(key, self._header[-_SALT_BYTES:])
        self._number = 0
        self._left = b""
        self._over = False

    def read(self, size: int) -> bytes:
        while len(self._left) < size and not self._over:
            self._left += self._piece()
        found, self._left = self._left[:size], self._left[size:]
        return found

    def read_to_end(self) -> None:
        """An archive says itself where it ends; what comes behind it must be right too."""
        while not self._over:
            self._piece()
        if self._file.read(1):
            raise self._damaged()

    def _piece(self) -> bytes:
        from cryptography.exceptions import InvalidTag

        prefix = self._file.read(_LENGTH.size)
        if len(prefix) < _LENGTH.size:
            raise self._damaged()
        (length,) = _LENGTH.unpack(prefix)
        if length > PIECE_BYTES + _TAG_BYTES:
            raise self._damaged()
        sealed = self._file.read(length)
        for last in (False, True):
            try:
                piece = self._cipher.decrypt(_NONCE.pack(self._number, last), sealed, self._header)
            except InvalidTag:
                continue
            self._number += 1
            self._over = last
            return bytes(piece)
        raise self._damaged()

    def _damaged(self) -> BadFile:
        return BadFile(
            f"{self._path} is damaged or cut short, after {self._number} MiB of what it holds",
            path=self._path,
            hint=_OTHER_COPY,
        )


def _cipher(key: Key, salt: bytes):  # type: ignore[no-untyped-def]  # AESGCM, which is imported only here
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return AESGCM(HKDF(SHA256(), 32, salt, b"sessiond backup 1").derive(key.secret))
