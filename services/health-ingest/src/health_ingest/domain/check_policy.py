"""What is thought of a check that is no code of the driver: rows of a table, as data.

A row names a check or a pattern of checks (`*` for any letters). The first row that names it exactly wins, then the
first pattern. An operator's rows stand before the built-in ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from fault_contracts.faults import Action, Attribution
from health_ingest.domain.ruling import Clears, Ruling, Weight
from health_ingest.domain.seen import Seen

ROWS_MAX = 1_000
"""A check looks at every pattern once; after that its row is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """So many signals within so long make a failure of a problem."""

    count: int
    within_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One row.

    Attributes:
        check: slug, or a pattern with `*`.
        fault_class: what its conditions are folded by; empty: the check.
        window_s: how long a problem is tolerated: math.inf as long as it lasts, None as the settings say.
        sentence: why, for people.
        source: of its numbers.
    """

    check: str
    weight: Weight
    fault_class: str = ""
    window_s: float | None = None
    clears: Clears = Clears.GOOD_SAMPLES
    good_samples_min: int | None = None
    quiet_s: float | None = None
    origin: Attribution = Attribution.UNKNOWN
    action: Action = Action.WAIT_OR_IGNORE
    sympathetic: bool = False
    repeats: Repeats | None = None
    sentence: str
    source: str

    def __post_init__(self) -> None:
        """Refuse rows that contradict themselves.

        Raises:
            ValueError: what, in words.
        """
        if (self.clears is Clears.QUIET) != (self.quiet_s is not None):
            raise ValueError("quiet_s belongs to clears: quiet, and only to it")
        if self.weight is Weight.FAILURE and (self.window_s is not None or self.repeats is not None):
            raise ValueError("a failure acts at once; it has neither a window nor repeats")
        if self.repeats is not None and not 2 <= self.repeats.count <= REPEATS_MAX:
            raise ValueError(f"repeats.count must be 2 to {REPEATS_MAX}")
        # Else one single event would always outlast its window.
        if self.quiet_s is not None and self.window_s is not None and self.window_s <= self.quiet_s:
            raise ValueError("window_s must be longer than quiet_s, or forever")


REPEATS_MAX = 16
"""Half of what is remembered of a fault class (seen.SEEN_MAX)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPolicy:
    """All rows, in order."""

    rows: tuple[CheckRow, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rows) > ROWS_MAX:
            raise ValueError(f"{len(self.rows)} rows; at most {ROWS_MAX}")

    def row_of(self, check: str) -> CheckRow | None:
        """The row that says what a check means, or None."""
        for row in self.rows:
            if row.check == check:
                return row
        return next((row for row in self.rows if "*" in row.check and fnmatchcase(check, row.check)), None)


def weigh_check(row: CheckRow, check: str, history: Sequence[Seen], *, now: datetime, tolerance_s: float) -> Ruling:
    """What a bad signal of this row means. `history`: earlier ones, this one not in it."""
    weight, sentence, rule_id = row.weight, row.sentence, f"check.{row.check}"
    if row.repeats is not None:
        since = now - timedelta(seconds=row.repeats.within_s)
        times = len({seen.at for seen in history if seen.check == check and seen.at >= since}) + 1
        if times >= row.repeats.count:
            weight, rule_id = Weight.FAILURE, f"{rule_id}.repeated"
            sentence = f"{row.sentence} ({times} times within {row.repeats.within_s:g} s)"
    return Ruling(
        weight=weight,
        fault_class=row.fault_class or check,
        clears=row.clears,
        window_s=tolerance_s if row.window_s is None else row.window_s,
        quiet_s=row.quiet_s,
        good_samples_min=row.good_samples_min,
        origin=row.origin,
        action=row.action,
        sympathetic=row.sympathetic,
        rule_id=rule_id[:256],
        sentence=sentence,
        source=row.source,
    )
