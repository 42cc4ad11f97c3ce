"""Which policy judges a signal: codes of the driver, checks with a row, and what nobody has a row for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from health_ingest.domain.check_policy import REPEATS_MAX, CheckPolicy, CheckRow, weigh_check
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.reset import Reset
from health_ingest.domain.ruling import Ruling
from health_ingest.domain.seen import Seen, remember, seen_of
from health_ingest.domain.signal import Entity, Signal
from health_ingest.domain.xid_policy import clearing, is_driver_check, weigh
from health_ingest.domain.xid_rows import XidPolicy

CHECKS_KNOWN_MAX = 4_096
"""Checks whose row is remembered; agents of this version know some hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A signal as it came, which the policies read, and the record that it belongs to: its device and fault class."""

    entity: Entity
    raw: Signal


class Rulebook:
    """All policies as one. Settings win over rows: a tolerance window that an operator set for a check holds."""

    def __init__(self, *, limits: ConditionPolicy, checks: CheckPolicy, driver: XidPolicy) -> None:
        self._limits = limits
        self._checks = checks
        self._driver = driver
        self._rows: dict[str, CheckRow | None] = {}
        self._classes: dict[str, str] = {}

    def classed(self, raw: Signal, *, now: datetime) -> Weighed:
        """Find the fault class.

        It follows from the check alone, never from what was seen before, so that a copy finds the same record.
        """
        check = raw.entity.check
        fault_class = self._classes.get(check)
        if fault_class is None:
            fault_class = check
            if check not in self._limits.at_once and check not in self._limits.judged:
                fault_class = self._weigh(raw, (), now=now, driver_wish="").fault_class
            if len(self._classes) >= CHECKS_KNOWN_MAX:
                self._classes.clear()
            self._classes[check] = fault_class
        entity = raw.entity if fault_class == check else replace(raw.entity, check=fault_class)
        return Weighed(entity=entity, raw=raw)

    def remembered(self, history: tuple[Seen, ...], raw: Signal) -> tuple[Seen, ...]:
        """The history with this bad signal, as far as the policy that judges it counts repeats."""
        check = raw.entity.check
        row = None if is_driver_check(check) else self._row(check)
        if is_driver_check(check) or (row is not None and row.repeats is None and row.fault_class):
            return remember(history, raw)  # a class of several: one may change what another means
        if row is None or row.repeats is None:
            return history
        return (*history, seen_of(raw))[-REPEATS_MAX:]

    def told_apart(self, check: str) -> int:
        """How many equal signals of a batch are judged one by one; what is beyond changes no judgement."""
        if is_driver_check(check):
            return 1  # its repeats are counted by bursts, and equal signals are of one
        row = self._row(check)
        return REPEATS_MAX if row is not None and row.repeats is not None else 1

    def ruling(
        self, weighed: Weighed, history: Sequence[Seen], *, now: datetime, driver_wish: str = ""
    ) -> Ruling | None:
        """What it means; None: the limits alone say it."""
        check = weighed.raw.entity.check
        if check in self._limits.at_once or check in self._limits.judged:
            return None
        ruling = self._weigh(weighed.raw, history, now=now, driver_wish=driver_wish)
        for name in (check, ruling.fault_class):
            if name in self._limits.tolerance_s_by_check:
                return replace(ruling, window_s=self._limits.tolerance_s_of(name))
        return ruling

    def reset(self, raw: Signal) -> Reset | None:
        """What a signal ends of others: the driver's word that it wants nothing any more, a code that ends another."""
        found = clearing(raw, self._driver)
        if found is None:
            return None
        return Reset(
            node_id=raw.entity.node_id,
            component_id=raw.entity.component_id,
            fault_class=found.fault_class,
            at=raw.observed_at,
            sentence=found.sentence,
            evidence_id=raw.signal_id,
        )

    def _weigh(self, raw: Signal, history: Sequence[Seen], *, now: datetime, driver_wish: str) -> Ruling:
        check = raw.entity.check
        if is_driver_check(check):
            return weigh(raw, history, now=now, policy=self._driver, driver_wish=driver_wish)
        row = self._row(check)
        if row is None:
            return self._limits.ruling(check)
        return weigh_check(row, check, history, now=now, tolerance_s=self._limits.tolerance_s_of(check))

    def _row(self, check: str) -> CheckRow | None:
        if check not in self._rows:
            if len(self._rows) >= CHECKS_KNOWN_MAX:
                self._rows.clear()
            self._rows[check] = self._checks.row_of(check)
        return self._rows[check]
