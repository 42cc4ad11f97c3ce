"""Archives as streams: each member is a source of its own, and an archive may lie in an archive.

Told by their first bytes, not by their name. Nothing is written to disk, and members' paths are names only. What an
archive may unpack to is bounded three ways, since a small file can hold petabytes of zeros.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from phalanx_cli.diagnose.byte_source import ByteSource, Readable
from phalanx_cli.diagnose.reading_notes import ReadingNotes, Skip

NESTING_MAX = 4
MEMBERS_MAX = 100_000
UNPACKED_BYTES_MAX = 64 << 30
"""Of one archive: more than the logs of a large job of weeks."""
RATIO_MAX = 1_000
"""Logs compress 5 to 100 times; zeros 1,000 times with DEFLATE, and more with the others."""
RATIO_FROM_BYTES = 64 << 20
"""Below this a ratio says nothing: a file of one repeated line is no attack."""
ZIP_IN_MEMORY_MAX = 256 << 20
"""A zip that comes in a stream must be held: its table of contents is at the end."""
PACKED_READ = 64 * 1024


class TooLarge(Exception):
    """An archive unpacks to more than is allowed."""


class _Counted:
    """Counts packed bytes on their way into a decompressor."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.count = 0

    def read(self, size: int = -1, /) -> bytes:
        part = self._source.read(PACKED_READ if size < 0 else size)
        self.count += len(part)
        return part

    def readable(self) -> bool:
        return True


class _Bounded:
    """Bytes out of a decompressor; stops at the limits."""

    def __init__(self, stream: Any, packed: _Counted) -> None:
        self._stream = stream
        self._packed = packed
        self._count = 0

    def read(self, size: int = -1, /) -> bytes:
        part: bytes = self._stream.read(PACKED_READ if size < 0 else size)
        self._count += len(part)
        if self._count > UNPACKED_BYTES_MAX:
            raise TooLarge(f"over {UNPACKED_BYTES_MAX >> 30} GiB")
        if self._count > RATIO_FROM_BYTES and self._count > RATIO_MAX * max(1, self._packed.count):
            raise TooLarge(f"over {RATIO_MAX} times its size")
        return part


DAMAGED = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, IndexError)
"""What unpackers raise for a damaged or truncated archive."""


def members(source: ByteSource, notes: ReadingNotes, depth: int = 0) -> Iterator[ByteSource]:
    """The source itself, or what is in it when it is an archive. What is wrong with one is noted, never raised."""
    try:
        head = source.head()
    except TooLarge as error:
        notes.skip(Skip.BOMB, source.name, str(error))
        return
    except DAMAGED as error:
        notes.skip(Skip.TRUNCATED, source.name, str(error))
        return
    kind = _kind_of(head)
    if not kind:
        yield source
        return
    if depth >= NESTING_MAX:
        notes.skip(Skip.TOO_DEEP, source.name)
        return
    try:
        if kind == "tar":
            yield from _tar(source, notes, depth)
        elif kind == "zip":
            yield from _zip(source, notes, depth)
        else:
            yield from _packed(kind, source, notes, depth)
    except TooLarge as error:
        notes.skip(Skip.BOMB, source.name, str(error))
    except DAMAGED as error:
        notes.skip(Skip.TRUNCATED, source.name, str(error))


def _kind_of(head: bytes) -> str:
    for magic, kind in ((b"\x1f\x8b", "gz"), (b"BZh", "bz2"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zst")):
        if head.startswith(magic):
            return kind
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    return "tar" if head[257:262] == b"ustar" else ""


def _packed(kind: str, source: ByteSource, notes: ReadingNotes, depth: int) -> Iterator[ByteSource]:
    counted = _Counted(source)
    stream = _opened(kind, counted)
    if stream is None:
        notes.skip(Skip.UNSUPPORTED, source.name, "zstd needs Python 3.14; unpack it with `zstd -d`")
        return
    # The name loses its ending, so that what is in it is recognised as if it had never been packed.
    inner = ByteSource(
        name=_unpacked_name(source.name), place=_unpacked_name(source.place), stream=_Bounded(stream, counted)
    )
    yield from members(inner, notes, depth + 1)


def _unpacked_name(name: str) -> str:
    for ending, left in ((".tgz", ".tar"), (".gz", ""), (".bz2", ""), (".xz", ""), (".txz", ".tar"), (".zst", "")):
        if name.endswith(ending):
            return name[: -len(ending)] + left
    return name


def _opened(kind: str, counted: _Counted) -> Readable | None:
    file: Any = counted
    match kind:
        case "gz":
            return gzip.GzipFile(fileobj=file, mode="rb")
        case "bz2":
            return bz2.BZ2File(file)
        case "xz":
            return lzma.LZMAFile(file)
        case _:
            try:
                opened: Readable = import_module("compression.zstd").ZstdFile(file)
            except ImportError:  # before Python 3.14
                return None
            return opened


def _tar(source: ByteSource, notes: ReadingNotes, depth: int) -> Iterator[ByteSource]:
    # "r|" never seeks, so that an archive of any size is read once, front to back.
    with tarfile.open(fileobj=_Counted(source), mode="r|", errorlevel=0) as archive:  # type: ignore[call-overload]
        for count, member in enumerate(archive):
            name = f"{source.name}!{member.name}"
            if count >= MEMBERS_MAX:
                notes.skip(Skip.TOO_MANY, name)
                return
            if member.isdir():
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                notes.skip(Skip.NO_FILE, name)
                continue
            inner = ByteSource(name=name, place=f"{source.place}!{member.name}", stream=file)
            yield from members(inner, notes, depth + 1)


def _zip(source: ByteSource, notes: ReadingNotes, depth: int) -> Iterator[ByteSource]:
    with zipfile.ZipFile(source.whole_file() or _held(source)) as archive:
        for count, member in enumerate(archive.infolist()):
            name = f"{source.name}!{member.filename}"
            if count >= MEMBERS_MAX:
                notes.skip(Skip.TOO_MANY, name)
                return
            if member.is_dir():
                continue
            if member.flag_bits & 1:
                notes.skip(Skip.ENCRYPTED, name)
                continue
            if member.file_size > RATIO_FROM_BYTES and member.file_size > RATIO_MAX * max(1, member.compress_size):
                notes.skip(Skip.BOMB, name, f"over {RATIO_MAX} times its size")
                continue
            packed = _Counted(ByteSource(name=name, stream=io.BytesIO()))
            packed.count = member.compress_size
            with archive.open(member) as file:
                place = f"{source.place}!{member.filename}"
                inner = ByteSource(name=name, place=place, stream=_Bounded(file, packed))
                yield from members(inner, notes, depth + 1)


def _held(source: ByteSource) -> io.BytesIO:
    held = io.BytesIO()
    while part := source.read(PACKED_READ):
        held.write(part)
        if held.tell() > ZIP_IN_MEMORY_MAX:
            raise TooLarge(f"a zip in a stream of over {ZIP_IN_MEMORY_MAX >> 20} MiB; save it as a file")
    return held
