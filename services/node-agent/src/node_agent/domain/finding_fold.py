"""What signatures found in the output of a node's ranks: folded, bounded, and told again only when it matters.

The same signature on the same stream is one finding with a count. A line that repeats a million times costs one
report and a count now and then; of too many different ones the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from training_topology.identity import Rank

PER_STREAM_MAX = 48
"""Different findings kept per stream and generation. A rank that fails says what failed in its first few."""
PER_NODE_MAX = 512
"""Of all streams of the node: 16 ranks with 32 each; some 300 KB."""
GROWTH_MIN = 4
"""A finding is told again when it has come so many times as often as was told."""
LAST_ONLY = frozenset({"progress"})
"""Roles of which only the newest line counts, and only when something fails."""
QUIET = frozenset({"progress", "benign"})
"""Roles that are told with a failure and never by themselves."""

_Key = tuple[str, Rank, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one signature found on one line.

    Attributes:
        role: as in fault_attribution.finding.Role.
        device: as the line names it.
    """

    kind: str
    role: str
    signature_id: str
    text: str
    device: str = ""
    captures: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A finding that is to be told now."""

    found: Found
    rank: Rank
    stream: str
    ordinal: int
    count: int
    observed_at: datetime


@dataclass(slots=True)
class _Fold:
    found: Found
    ordinal: int
    observed_at: datetime
    count: int = 1
    told: int = 0


@dataclass(slots=True)
class FindingFold:
    """The findings of one generation on one node."""

    dropped: int = 0
    """Findings that had no room."""
    _folds: dict[_Key, _Fold] = field(default_factory=dict)
    _per_stream: dict[tuple[Rank, str], int] = field(default_factory=dict)

    def add(self, found: Found, rank: Rank, stream: str, now: datetime) -> bool:
        """Take one in; says whether there is something to tell."""
        key = (found.signature_id, rank, stream, found.kind)
        fold = self._folds.get(key)
        if fold is None:
            place = (rank, stream)
            ordinal = self._per_stream.get(place, 0)
            if ordinal >= PER_STREAM_MAX or len(self._folds) >= PER_NODE_MAX:
                self.dropped += 1
                return False
            self._per_stream[place] = ordinal + 1
            self._folds[key] = _Fold(found=found, ordinal=ordinal, observed_at=now)
            return found.role not in QUIET
        fold.count += 1
        if found.role in LAST_ONLY:
            fold.found, fold.observed_at = found, now
        return _is_due(fold)

    def due(self, *, everything: bool) -> Iterator[Told]:
        """What is to be told, marked as told. `everything`: something failed, so that each new word counts."""
        for (_, rank, stream, _), fold in self._folds.items():
            if fold.count > fold.told if everything else _is_due(fold):
                fold.told = fold.count
                yield Told(
                    found=fold.found,
                    rank=rank,
                    stream=stream,
                    ordinal=fold.ordinal,
                    count=fold.count,
                    observed_at=fold.observed_at,
                )


def _is_due(fold: _Fold) -> bool:
    if fold.found.role in QUIET:
        return False
    return fold.told == 0 or fold.count >= fold.told * GROWTH_MIN
