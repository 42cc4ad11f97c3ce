"""One input as bytes, with the name that people know it by, and a look at its beginning that loses nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, Protocol

HEAD_BYTES = 64 * 1024
"""Enough for a banner, the options of a run and some hundred lines to recognise a format by."""


class Readable(Protocol):
    """What a source needs of a stream: files, sockets and decompressors have it."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to so many bytes; none at the end."""


class ByteSource:
    """Bytes with a name."""

    def __init__(
        self, *, name: str, stream: Readable, place: str = "", on_read: Callable[[int], None] | None = None
    ) -> None:
        self.name = name
        """Path; of a member of an archive: archive!member."""
        self.place = place or name
        """The part of the name that may tell where the lines come from: below what the person named."""
        self._stream = stream
        self._on_read = on_read
        self._head = b""
        self._headed = False

    def head(self) -> bytes:
        """The first HEAD_BYTES, or all of a shorter input. They are read again by `read`."""
        if not self._headed:
            self._headed = True
            parts: list[bytes] = []
            left = HEAD_BYTES
            while left > 0 and (part := self._take(left)):
                parts.append(part)
                left -= len(part)
            self._head = b"".join(parts)
        return self._head

    def whole_file(self) -> BinaryIO | None:
        """The file from its beginning, where it is one that can be read in any order; instead of `read`."""
        stream = self._stream
        if not isinstance(stream, io.BufferedReader) or not isinstance(stream.raw, io.FileIO) or not stream.seekable():
            return None
        stream.seek(0)
        return stream

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end."""
        if self._head:
            part, self._head = self._head[:size], self._head[size:]
            return part
        return self._take(size)

    def _take(self, size: int) -> bytes:
        part = self._stream.read(size)
        if self._on_read is not None and part:
            self._on_read(len(part))
        return part
