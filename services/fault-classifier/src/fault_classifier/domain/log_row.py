"""What signatures found in the output of a generation: one row a signature, rank and stream, inside of limits.

A storm of equal lines is one row with a count, a storm over ranks is a few rows with texts and the rest without. What
may be a cause stays when there is too much; context goes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

ROWS_MAX = 384
"""Rows kept per generation, some 150 KB in its record at the most."""
RANKS_MAX = 64
"""Rows per signature: what most ranks say is not more true for the rest of them."""
TEXTS_MAX = 4
"""Rows per signature that keep their line; the others are like it."""
TEXT_CHARS_MAX = 300
CAPTURES_MAX = 8
CAPTURE_CHARS_MAX = 120

_WORTH = {"cause": 0, "symptom": 1, "victim": 2, "unrecognised": 3, "context": 4, "benign": 5, "progress": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One row.

    Attributes:
        ordinal: place among the findings of its stream.
        count: lines that it stands for.
    """

    kind: str
    role: str
    signature_id: str
    node_id: str
    rank: int
    stream: str
    ordinal: int
    process: str = ""
    device: str = ""
    text: str = ""
    captures: dict[str, str]
    count: int = 1

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What makes it the same row."""
        return (self.signature_id, self.rank, self.stream, self.kind)

    @property
    def evidence_id(self) -> str:
        """A name that needs no message: the row of this node, rank and stream."""
        return f"{self.node_id}/{self.rank}/{self.stream}/{self.ordinal}/{self.signature_id}"[:256]


def add_rows(rows: tuple[LogRow, ...], new: Iterable[LogRow]) -> tuple[LogRow, ...]:
    """With more rows; the same object when nothing is new in them. The result does not depend on their order."""
    known = {row.key: row for row in rows}
    changed = False
    for row in new:
        old = known.get(row.key)
        if old is None:
            known[row.key] = _bounded(row)
        elif row.count > old.count:
            # The first line is kept: a later telling says only how often.
            known[row.key] = replace(old, count=row.count)
        else:
            continue
        changed = True
    return _fitted(known.values()) if changed else rows


def _fitted(rows: Iterable[LogRow]) -> tuple[LogRow, ...]:
    by_signature: dict[str, int] = {}
    fitted: list[LogRow] = []
    ordered = sorted(rows, key=lambda row: (_WORTH.get(row.role, 9), row.signature_id, row.rank, row.stream, row.kind))
    for row in ordered:
        seen = by_signature.get(row.signature_id, 0)
        by_signature[row.signature_id] = seen + 1
        if seen < RANKS_MAX and len(fitted) < ROWS_MAX:
            fitted.append(row if seen < TEXTS_MAX or not row.text else replace(row, text=""))
    return tuple(fitted)


def _bounded(row: LogRow) -> LogRow:
    names = list(row.captures)
    long = any(len(value) > CAPTURE_CHARS_MAX for value in row.captures.values())
    if len(row.text) <= TEXT_CHARS_MAX and len(names) <= CAPTURES_MAX and not long and names == sorted(names):
        return row
    captures = {name: value[:CAPTURE_CHARS_MAX] for name, value in sorted(row.captures.items())[:CAPTURES_MAX]}
    return replace(row, text=row.text[:TEXT_CHARS_MAX], captures=captures)
