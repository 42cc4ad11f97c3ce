"""The newest observation of everything that the host role looks at, and what of it goes out.

Of a look only that goes out which is not ok, was not ok a few looks ago (health-ingest clears on fresh good samples
in a row), or is new. Silence is unknown: a row that nobody renewed for three intervals says so, once, and goes out.
Events (a line of the kernel log) have no next look; they stay on the board for a while and are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.observation import Observation

Identity = tuple[Component, str, str]

ROWS_MAX = 4_096
"""16 GPUs with 60 checks, 32 NICs with 5 and the machine are 1,200."""
EVENTS_MAX = 256
"""Different (device, check) pairs; a storm of one kind is one row."""
EVENT_KEPT_S = 3_600.0
"""How long an event is shown. What it means for longer than that is a condition, which health-ingest keeps."""
INTERVALS_UNTIL_UNKNOWN = 3
INTERVALS_UNTIL_GONE = 20
"""A row that its collector no longer names, while it names others, is dropped: a process that ended, a mount taken
away."""
GOOD_LOOKS_SENT = 5
"""Good looks that go out after a bad one. health-ingest wants three in a row (its settings); two may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        source: the collector or event source.
        seen_s: monotonic time of the look that renewed it.
        expires_after_s: without a new look for so long it is unknown.
        good_looks: in a row; at GOOD_LOOKS_SENT + 1 it stays.
        event: it happened once and has no next look.
    """

    observation: Observation
    source: str
    seen_s: float
    expires_after_s: float
    good_looks: int = 0
    event: bool = False
    expired: bool = False


class HostBoard:
    """Rows by identity. Times are monotonic seconds, but for `observed_at`."""

    def __init__(self) -> None:
        self._rows: dict[Identity, Row] = {}
        self._events: dict[Identity, Row] = {}
        self._answered_s: dict[str, float] = {}
        self.left_out = 0
        """Observations that did not fit."""

    def take(
        self, source: str, look: Iterable[Observation], *, interval_s: float, now_s: float
    ) -> tuple[Observation, ...]:
        """Renew what a look saw; returns what of it has to go out."""
        self._answered_s[source] = now_s
        told = []
        for observation in look:
            before = self._rows.get(observation.identity)
            if before is None and len(self._rows) >= ROWS_MAX:
                self.left_out += 1
                continue
            good_looks = 0
            if observation.health is Health.OK:
                known_good = GOOD_LOOKS_SENT if before is None else before.good_looks
                good_looks = min(known_good, GOOD_LOOKS_SENT) + 1
            self._rows[observation.identity] = Row(
                observation=observation,
                source=source,
                seen_s=now_s,
                expires_after_s=INTERVALS_UNTIL_UNKNOWN * interval_s,
                good_looks=good_looks,
            )
            if good_looks <= GOOD_LOOKS_SENT or before is None:
                told.append(observation)
        return tuple(told)

    def happened(self, source: str, observation: Observation, *, now_s: float) -> None:
        """Keep an event; repeats add to its count."""
        before = self._events.pop(observation.identity, None)
        if before is not None:
            observation = replace(observation, count=before.observation.count + observation.count)
        elif len(self._events) >= EVENTS_MAX:
            del self._events[next(iter(self._events))]  # the one that was quiet for longest
        self._events[observation.identity] = Row(
            observation=observation, source=source, seen_s=now_s, expires_after_s=EVENT_KEPT_S, event=True
        )

    def expire(self, *, now_s: float, at: datetime) -> tuple[Observation, ...]:
        """Let silence become unknown; returns what became so now."""
        self._events = {key: row for key, row in self._events.items() if now_s - row.seen_s <= EVENT_KEPT_S}
        told = []
        for key, row in tuple(self._rows.items()):
            age_s = now_s - row.seen_s
            if age_s <= row.expires_after_s:
                continue
            answers = self._answered_s.get(row.source, row.seen_s) - row.seen_s > row.expires_after_s
            if answers and age_s > row.expires_after_s * INTERVALS_UNTIL_GONE / INTERVALS_UNTIL_UNKNOWN:
                del self._rows[key]
            elif not row.expired:
                unknown = _silent(row, age_s, at)
                self._rows[key] = replace(row, observation=unknown, good_looks=0, expired=True)
                told.append(unknown)
        return tuple(told)

    def whole(self) -> tuple[Observation, ...]:
        """Every row; events are not in it, or they would be counted again."""
        return tuple(row.observation for row in self._rows.values())

    def table(self) -> tuple[Row, ...]:
        """Rows and events, the worst first: who has to cut cuts what is well."""
        return tuple(sorted((*self._rows.values(), *self._events.values()), key=_order))

    def value(self, check: str, attribute: str) -> str:
        """An attribute of any row of this check, empty when there is none: for what the whole machine has in common."""
        for row in self._rows.values():
            if row.observation.check == check and row.observation.attributes.get(attribute):
                return row.observation.attributes[attribute]
        return ""


_WORST_FIRST = {Health.BAD: 0, Health.UNKNOWN: 1, Health.OK: 2}


def _order(row: Row) -> tuple[int, str, str, str]:
    seen = row.observation
    return (_WORST_FIRST[seen.health], seen.component.value, seen.component_id, seen.check)


def _silent(row: Row, age_s: float, at: datetime) -> Observation:
    before = row.observation
    detail = f"not seen by {row.source} for {age_s:.0f} s; it was {before.health.value}"
    if before.detail:
        detail += f": {before.detail}"
    return replace(before, health=Health.UNKNOWN, detail=detail, values={}, observed_at=at)
