"""Bytes to UTF-8: which encoding a text has, and whether it is text at all."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from phalanx_cli.diagnose.byte_source import ByteSource

CHUNK_BYTES = 1 << 20
"""Per call of the matcher: large enough that its start does not count, small enough for the cache."""
UTF8 = ""
_BOMS = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_HOLE = re.compile(rb"\x00{16,}")
_BINARY_MAGIC = (
    b"\x7fELF", b"\x89PNG", b"\x93NUMPY", b"\x80\x02", b"\x80\x04", b"\x80\x05", b"SQLite format 3", b"GIF8", b"%PDF",
)  # fmt: skip
BINARY_SHARE = 0.1
"""Control characters in a text: none, or a few where a file was not written through to the disk."""
SAMPLE_BYTES = 8_192


def encoding_of(head: bytes) -> str | None:
    """Name of the encoding; UTF8 for that or near it, None for no text at all."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    if head.startswith(_BINARY_MAGIC):
        return None
    sample = head[:SAMPLE_BYTES]
    # UTF-16 without a mark: every other byte of Latin text is zero.
    if len(sample) >= 64 and sample.count(0) > len(sample) * 0.35:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        if odd > 20 * max(1, even):
            return "utf-16-le"
        if even > 20 * max(1, odd):
            return "utf-16-be"
    # A hole of zeros is what a crash leaves in a log; only what lies around it is judged.
    solid = _HOLE.sub(b"", head)[:SAMPLE_BYTES]
    if not solid:
        return None
    return None if len(_CONTROL.findall(solid)) > BINARY_SHARE * len(solid) else UTF8


def chunks(source: ByteSource, encoding: str) -> Iterator[bytes]:
    """All of a source as UTF-8, or what comes nearest."""
    if encoding == UTF8:
        first = True
        while part := source.read(CHUNK_BYTES):
            yield part.removeprefix(codecs.BOM_UTF8) if first else part
            first = False
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    while part := source.read(CHUNK_BYTES):
        yield decoder.decode(part).encode("utf-8", errors="replace")
    yield decoder.decode(b"", final=True).encode("utf-8", errors="replace")
