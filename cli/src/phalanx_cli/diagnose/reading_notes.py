"""What was read and what was not, and why: a verdict is worth as much as the evidence that went into it.

Everything odd is counted by reason, the first names of each are kept, and nothing is dropped without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

NAMES_KEPT = 5
"""Of each reason; the rest is counted."""


class Skip(StrEnum):
    """Why something was not read, or not all of it."""

    MISSING = "no such file or folder"
    UNREADABLE = "cannot be read"
    BINARY = "binary, no text"
    NO_FILE = "not a plain file (device, pipe, socket)"
    LINK_LOOP = "a link that leads back"
    TWICE = "given or linked twice"
    SAME_CONTENT = "the same content as another file"
    COPY = "a copy that Phalanx kept of a log beside it"
    EMPTY = "empty"
    TRUNCATED = "cut short or damaged; read up to there"
    BOMB = "unpacks to more than an archive of logs would"
    TOO_DEEP = "nested too deep"
    TOO_MANY = "more files than are read in one go"
    MALFORMED = "not of the shape that its name or its beginning promises; read as plain text"
    ENCRYPTED = "encrypted"
    UNSUPPORTED = "packed in a way that this Python cannot unpack"
    NO_LOG = "no log (weights, images, programs)"


class Oddity(StrEnum):
    """What was read and is odd all the same."""

    LONG_LINE = "lines of which only the first 16 KiB were looked at"
    CLOCK_BACK = "streams whose clock goes back by more than a minute; their times were not used"
    SAME_RANK = "several files of one rank and stream"
    LOCAL_RANKS = "local ranks of several launches; the global rank is not known"
    DECODED = "not UTF-8; decoded as well as can be"
    TWO_SCALES = "streams whose times count from another beginning; not used"
    TOO_MANY_FINDINGS = "findings that had no room"


@dataclass(slots=True)
class ReadingNotes:
    """Counts of one run."""

    files: int = 0
    lines: int = 0
    size_bytes: int = 0
    skipped: dict[Skip, int] = field(default_factory=dict)
    odd: dict[Oddity, int] = field(default_factory=dict)
    names: dict[Skip | Oddity, list[str]] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    """How many of each kind of input, as recognised."""
    on_read: Callable[[int], None] | None = None
    """Told of size_bytes as it grows, for a progress bar."""

    def took(self, size: int) -> None:
        """So many bytes of files were read, packed ones as packed."""
        self.size_bytes += size
        if self.on_read is not None:
            self.on_read(self.size_bytes)

    def skip(self, why: Skip, name: str, detail: str = "") -> None:
        """Something is not read. An archive of which a member was cut short is not cut short once more."""
        if why is Skip.TRUNCATED and any(kept.startswith(f"{name}!") for kept in self.names.get(why, ())):
            return
        self.skipped[why] = self.skipped.get(why, 0) + 1
        self._keep(why, f"{name} ({detail})" if detail else name)

    def note(self, what: Oddity, name: str, count: int = 1) -> None:
        """Something is odd."""
        self.odd[what] = self.odd.get(what, 0) + count
        self._keep(what, name)

    def recognised(self, kind: str) -> None:
        """One more input of a kind."""
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def _keep(self, why: Skip | Oddity, name: str) -> None:
        kept = self.names.setdefault(why, [])
        if len(kept) < NAMES_KEPT:
            kept.append(name)
