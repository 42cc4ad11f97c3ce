"""The port by which what the journal says is counted, once for each entry that was published."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from fault_contracts.payload import Payload
from recovery_planner.domain.gang import Effect, Gang

REMEMBERED_MAX = 4_096
"""Entries known to be counted. One is published again at once or not at all, so a few would do."""


class JournalFigures(Protocol):
    """Counts entries of the journal."""

    def note(self, payload: Payload) -> None:
        """One entry; must not wait."""
        ...


class NoJournalFigures:
    """For whoever shows none."""

    def note(self, payload: Payload) -> None:
        """See JournalFigures."""


class CountOnce:
    """Hands each effect of a record on once, however often it is published: a repeat is stored once as well."""

    def __init__(self, figures: JournalFigures) -> None:
        self._figures = figures
        self._counted: OrderedDict[tuple[str, str, int], None] = OrderedDict()

    def published(self, gang: Gang, effect: Effect) -> None:
        """This effect is in the stream."""
        key = (gang.job_id, effect.run or gang.born_at.isoformat(), effect.seq)
        if key in self._counted:
            return
        self._counted[key] = None
        if len(self._counted) > REMEMBERED_MAX:
            self._counted.popitem(last=False)
        self._figures.note(effect.payload)
