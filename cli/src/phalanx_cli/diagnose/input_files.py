"""PATHs to what can be read: folders are walked, archives opened, everything else named and left out.

A name is only a name: nothing is unpacked to disk, no link is followed twice, no pipe or device is opened.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from phalanx_cli.diagnose.archives import members
from phalanx_cli.diagnose.byte_source import ByteSource
from phalanx_cli.diagnose.reading_notes import ReadingNotes, Skip

FILES_MAX = 100_000
"""64 files for each of 1,024 ranks, and then some."""
PLACE_PARTS = 3
"""rank_3/logs/stderr.log: of a path that a person typed, so much is about the file."""
DEPTH_MAX = 32
"""Folders within folders; also what ends a loop that the file system hides."""
STDIN = "-"
_ATTEMPT = re.compile(r"^attempt_\d+$")
_EVIDENCE = re.compile(r"^evidence_\d+$")
_NO_LOGS = frozenset(
    {".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".npy", ".npz", ".onnx", ".h5", ".whl", ".jar", ".so", ".o", ".a",
     ".exe", ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".pyc", ".parquet", ".arrow", ".sqlite", ".db", ".distcp",
     ".nsys-rep", ".qdrep", ".pkl", ".pickle", ".docx", ".xlsx"}
)  # fmt: skip
"""Weights and the like lie beside logs; many are zip files within."""


@dataclass(slots=True)
class _Walk:
    """One PATH's walk; `seen` is shared by all."""

    notes: ReadingNotes
    seen: set[tuple[int, int]]
    named: Path

    def place(self, path: Path) -> str:
        """What of a path may tell about its lines: from the named folder on, or the last parts as they were typed."""
        if path == self.named:
            return "/".join(path.parts[-PLACE_PARTS:])
        return str(path.relative_to(self.named.parent)) if self.named.name else str(path.relative_to(self.named))


def sources(paths: list[str], notes: ReadingNotes) -> Iterator[ByteSource]:
    """Every readable input below the PATHs, in a stable order. Each must be used up before the next is asked for."""
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path == STDIN:
            yield from members(ByteSource(name="stdin", stream=sys.stdin.buffer, on_read=notes.took), notes)
        else:
            yield from _below(Path(path), _Walk(notes=notes, seen=seen, named=Path(path)), depth=0)


def size_of(paths: list[str]) -> int:
    """Bytes of the files and of the files directly in folders, for a progress bar; 0 when it cannot be known."""
    total = 0
    for path in paths:
        if path == STDIN:
            return 0
        with suppress(OSError):
            if os.path.isfile(path):
                total += os.path.getsize(path)
            else:
                for folder, _, names in os.walk(path):
                    total += sum(_size(os.path.join(folder, name)) for name in names)
    return total


def _size(path: str) -> int:
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _below(path: Path, walk: _Walk, depth: int) -> Iterator[ByteSource]:
    try:
        found = path.stat()
    except FileNotFoundError:
        why = Skip.UNREADABLE if path.is_symlink() else Skip.MISSING
        walk.notes.skip(why, str(path), "a link to nothing" if path.is_symlink() else "")
        return
    except OSError as error:
        loop = error.errno == errno.ELOOP
        walk.notes.skip(Skip.LINK_LOOP if loop else Skip.UNREADABLE, str(path), error.strerror or "")
        return
    if stat.S_ISDIR(found.st_mode):
        yield from _folder(path, (found.st_dev, found.st_ino), walk, depth)
    elif not stat.S_ISREG(found.st_mode):
        walk.notes.skip(Skip.NO_FILE, str(path))
    else:
        yield from _file(path, (found.st_dev, found.st_ino), walk)


def _folder(path: Path, identity: tuple[int, int], walk: _Walk, depth: int) -> Iterator[ByteSource]:
    if identity in walk.seen:
        walk.notes.skip(Skip.LINK_LOOP if path.is_symlink() else Skip.TWICE, str(path))
        return
    walk.seen.add(identity)
    if depth >= DEPTH_MAX:
        walk.notes.skip(Skip.TOO_DEEP, str(path))
        return
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        walk.notes.skip(Skip.UNREADABLE, str(path), error.strerror or "")
        return
    for name in names:
        if _EVIDENCE.match(name) and _ATTEMPT.match(path.name) and any(each.isdecimal() for each in names):
            walk.notes.skip(Skip.COPY, str(path / name))
            continue
        yield from _below(path / name, walk, depth + 1)


def _file(path: Path, identity: tuple[int, int], walk: _Walk) -> Iterator[ByteSource]:
    if identity in walk.seen:
        walk.notes.skip(Skip.TWICE, str(path))
        return
    walk.seen.add(identity)
    if len(walk.seen) > FILES_MAX:
        walk.notes.skip(Skip.TOO_MANY, str(path))
        return
    if path.suffix.lower() in _NO_LOGS:
        walk.notes.skip(Skip.NO_LOG, str(path))
        return
    try:
        file: BinaryIO = path.open("rb")
    except OSError as error:
        walk.notes.skip(Skip.UNREADABLE, str(path), error.strerror or "")
        return
    with file:
        source = ByteSource(name=str(path), place=walk.place(path), stream=file, on_read=walk.notes.took)
        yield from members(source, walk.notes)
