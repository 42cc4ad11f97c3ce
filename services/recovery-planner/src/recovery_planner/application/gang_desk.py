"""What the leader of the planners holds of one job: the record, and the events that wait to be decided."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from fault_contracts.payload import Reason
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.step import Event, Step
from service_kit.logging import get_logger

QUIET_RULES = ("report.", "verdict.stale", "verdict.repeated", "end.told")
"""Reasons why nothing happened: normal after a redelivery, worth a line only to whoever debugs."""

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Request:
    """One event and the handler that waits for it."""

    event: Event
    cause_id: str
    done: asyncio.Future[None]

    def resolve(self) -> None:
        """It is done."""
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """It could not be done."""
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(slots=True, kw_only=True)
class Desk:
    """What the leader holds of one job. `gang` may be ahead of the store (`dirty`)."""

    job_id: str
    gang: Gang | None = None
    revision: int | None = None
    loaded: bool = False
    dirty: bool = False
    doubtful: bool = False
    """An event did not fit the copy, which may be old."""
    unsure: bool = False
    """The store did not answer: what it holds has to be read, also when no event comes again."""
    losses: int = 0
    queue: deque[Request] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None

    def take(self, result: Step) -> None:
        """Go on with what was decided."""
        self.gang = result.gang
        self.dirty = self.dirty or result.durable
        self.doubtful = self.doubtful or result.ignored
        _log_reasons(result.gang, result.reasons)

    def forget(self) -> None:
        """The store knows better."""
        self.gang, self.revision, self.loaded, self.dirty, self.doubtful = None, None, False, False, False


def _log_reasons(gang: Gang, reasons: Sequence[Reason]) -> None:
    incident_id = gang.incident.incident_id if gang.incident else ""
    for reason in reasons:
        say = log.debug if reason.rule_id.startswith(QUIET_RULES) else log.info
        say(
            reason.rule_id,
            job_id=gang.job_id,
            incident_id=incident_id,
            phase=str(gang.phase),
            topology_version=gang.table.topology_version,
            reason=reason.sentence,
        )
