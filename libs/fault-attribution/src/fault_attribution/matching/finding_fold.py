"""Keeps a bounded number of the findings of one stream, however often a line repeats; the rest is counted.

The same signature with the same captures at the same place is one finding with a count. Its last occurrence is kept
beside its first, because what happened after what is asked of the order of lines in one stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fault_attribution.finding import Finding
from fault_attribution.matching.error_look import shape_of
from fault_attribution.matching.hit import Hit, LineFacts, to_finding

DISTINCT_MAX = 32
"""Different captures of one signature at one place (a step number is another every time); then only the last one."""
FOLDS_MAX = 20_000
"""Of one stream. A merged log of 500 ranks with 40 different findings each still fits."""
SHAPES_MAX = 50
"""Different lines that no signature knows, of one place."""
SHAPED_LINES_MAX = 5_000
"""So many of those are compared; then they are counted only."""

_Place = tuple[int, str, int | None, str]
"""Number of the signature, node, rank, source."""
_Key = tuple[object, ...]


@dataclass(slots=True)
class _Fold:
    """Equal findings: the first as it was, and of the last only what it takes to make it."""

    first: Finding
    count: int = 1
    last: tuple[Hit, bytes, LineFacts, int] | None = None


class FindingFold:
    """The findings of one stream."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._folds: dict[_Key, _Fold] = {}
        self._distinct: dict[_Place, int] = {}
        self._shaped: dict[_Place, int] = {}
        self.matches: dict[int, int] = {}
        """How often each signature matched, by its number."""
        self.dropped = 0
        """Findings that had no room at all."""

    def add(self, hit: Hit, line: bytes, facts: LineFacts, number: int) -> None:
        """Take a finding."""
        signature = hit.compiled.number
        self.matches[signature] = self.matches.get(signature, 0) + 1
        place = (signature, facts.node, facts.rank, facts.source)
        self._put(place, (place, hit.caught(line)), DISTINCT_MAX, hit, line, facts, number)

    def add_unrecognised(self, hit: Hit, line: bytes, facts: LineFacts, number: int) -> None:
        """Take a line that looks like an error."""
        place: _Place = (hit.compiled.number, facts.node, facts.rank, facts.source)
        lines = self._shaped.get(place, 0) + 1
        self._shaped[place] = lines
        key: _Key = place
        if lines <= SHAPED_LINES_MAX:
            key = (place, shape_of(line.decode(errors="replace")))
        self._put(place, key, SHAPES_MAX, hit, line, facts, number)

    def writers(self, number: int) -> set[tuple[str, int | None]]:
        """Nodes and ranks on which a signature, by its number, matched."""
        return {(place[1], place[2]) for place in self._distinct if place[0] == number}

    def findings(self) -> list[Finding]:
        """All of them, in the order of the stream."""
        found: list[Finding] = []
        names: set[str] = set()
        for fold in self._folds.values():
            first, last = fold.first, fold.last
            pair = [replace(first, count=fold.count)]
            if last is not None:
                hit, line, facts, number = last
                pair = [replace(first, count=fold.count - 1), to_finding(hit, line, facts, self._stream, number)]
            for each in pair:
                name, again = each.finding_id, 0
                while name in names:  # a progress bar rewrites its line: several findings in one
                    again += 1
                    name = f"{each.finding_id}~{again}"
                names.add(name)
                found.append(each if name == each.finding_id else replace(each, finding_id=name))
        return sorted(found, key=lambda each: each.number)

    def _put(
        self, place: _Place, key: _Key, distinct_max: int, hit: Hit, line: bytes, facts: LineFacts, number: int
    ) -> None:
        fold = self._folds.get(key)
        if fold is None:
            distinct = self._distinct.get(place, 0)
            if distinct >= distinct_max:
                fold = self._folds.get((place, "rest"))
                key = (place, "rest")
            if fold is None:
                if len(self._folds) >= FOLDS_MAX:
                    self.dropped += 1
                    return
                self._distinct[place] = distinct + 1
                self._folds[key] = _Fold(first=to_finding(hit, line, facts, self._stream, number))
                return
        fold.count += 1
        fold.last = (hit, line, facts, number)
