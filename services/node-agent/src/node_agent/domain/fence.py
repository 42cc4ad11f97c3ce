"""Which command is obeyed: nothing older than what was seen, nothing expired, nothing twice.

Order of commands: topology_version, then verb (within one version a request for a checkpoint comes after the start, a
stop beats both and the end beats all), then attempt, then epoch. A stop names the version that it ends, a start the
version that it begins, so the stop of version 3 comes after the start of version 3 whatever incident it belongs to:
attempts count inside an incident and say nothing across two.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fault_contracts.commands import Command, EndJob, StartWorkers, StopWorkers
from fault_contracts.payload import Reason
from fault_contracts.preemption import RequestCheckpoint


class Ruling(StrEnum):
    """What becomes of a command."""

    OBEY = "obey"
    REPEAT = "repeat"
    """Carried out before: the stored outcome is the answer."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FencePoint:
    """A place in the order of commands."""

    topology_version: int
    verb: int
    attempt: int
    epoch: int


NOTHING_SEEN = FencePoint(topology_version=-1, verb=0, attempt=0, epoch=0)

_VERBS: dict[type[Command], int] = {StartWorkers: 0, RequestCheckpoint: 1, StopWorkers: 2, EndJob: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceVerdict:
    """The ruling and why. `code` is CommandRefused.code when the ruling is REFUSE."""

    ruling: Ruling
    reason: Reason

    @property
    def code(self) -> str:
        """Last word of the rule."""
        return self.reason.rule_id.rpartition(".")[2]


def point_of(command: Command) -> FencePoint:
    """Where a command stands in the order."""
    fence = command.fence
    return FencePoint(
        topology_version=fence.topology_version,
        verb=_VERBS[type(command)],
        attempt=fence.attempt,
        epoch=fence.epoch,
    )


def judge(command: Command, *, newest: FencePoint, done_before: bool, now: datetime) -> FenceVerdict:
    """Rule on one command.

    Args:
        command: what arrived.
        newest: the newest command that this agent carried out.
        done_before: the journal has this operation_id.
        now: in the planner's clock, as expires_at is (planner_clock.py).
    """
    point = point_of(command)
    if done_before:
        return _verdict(Ruling.REPEAT, "repeat", f"operation {command.operation_id} was carried out before")
    if command.expires_at <= now:
        age_s = (now - command.expires_at).total_seconds()
        return _verdict(Ruling.REFUSE, "expired", f"the command expired {age_s:.1f} s ago")
    if point <= newest:
        return _verdict(Ruling.REFUSE, "stale", f"{_shown(point)} is not newer than {_shown(newest)}")
    return _verdict(Ruling.OBEY, "newer", f"{_shown(point)} is newer than {_shown(newest)}")


def owed(command: Command, newest: FencePoint) -> bool:
    """A command that an earlier life of this agent carried out is done anew only while nothing newer was obeyed.

    A stop of version 1 that is delivered once more must not end the ranks of version 2.
    """
    return point_of(command) >= newest


def _verdict(ruling: Ruling, rule: str, sentence: str) -> FenceVerdict:
    return FenceVerdict(ruling=ruling, reason=Reason(rule_id=f"agent.fence.{rule}", sentence=sentence))


def _shown(point: FencePoint) -> str:
    if point == NOTHING_SEEN:
        return "nothing"
    verb = ("start", "request", "stop", "end")[point.verb]
    return f"{verb} of version {point.topology_version}, attempt {point.attempt}, epoch {point.epoch}"
