"""The lines that a reason rests on: a derived finding is traced back to what was read, as it stands in its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fault_attribution.finding import Finding

DERIVED = "derive."
"""Begins the rule id of every derivation."""
TRACED_MAX = 64
"""Of one reason: a derived finding may rest on every rank of a large job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One line of a file; `number` is 0 for what no line says by itself."""

    file: str
    number: int
    text: str
    kind: str
    count: int


class EvidenceIndex:
    """All findings of a diagnosis, to trace derived ones."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        known = list(findings)
        self._by_id = {each.finding_id: each for each in known}
        self._read = {(each.stream, each.number): each for each in known if not each.rule_id.startswith(DERIVED)}

    def rows(self, findings: Sequence[Finding]) -> list[EvidenceRow]:
        """Each line once, in the order of the findings."""
        rows: dict[tuple[str, int, str], EvidenceRow] = {}
        for each in findings:
            for row in self._rows(each, set()):
                if len(rows) < TRACED_MAX:
                    rows.setdefault((row.file, row.number, "" if row.number else row.text), row)
        return list(rows.values())

    def _rows(self, one: Finding, seen: set[str]) -> Iterator[EvidenceRow]:
        if one.finding_id in seen or len(seen) > TRACED_MAX:
            return
        seen.add(one.finding_id)
        derived = one.rule_id.startswith(DERIVED)
        below = [self._by_id[name] for name in one.because if name in self._by_id] if derived else []
        if not below:
            read = self._read.get((one.stream, one.number), one) if derived and one.number else one
            yield EvidenceRow(file=one.stream, number=one.number, text=read.text, kind=one.kind, count=one.count)
        for each in below:
            yield from self._rows(each, seen)
