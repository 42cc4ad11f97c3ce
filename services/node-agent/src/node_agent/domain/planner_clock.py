"""What time it is for the planner, learned from its commands: the validity of a command is in its clock, not in ours.

A machine whose wall clock is wrong must still obey. Each command tells when it was sent, and from then on our monotonic
clock goes on, whatever becomes of our wall clock. What is known so is never later than the planner's own time: a
command is at most taken for younger than it is, by the time that the first one was under way. Against what is older
than something obeyed, the fence protects (fence.py), not the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from fault_contracts.commands import Command
from node_agent.domain.fence import FencePoint, point_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerClock:
    """One reading of the planner's clock.

    Attributes:
        epoch: the leader whose clock it is; another leader is another machine.
        point: the newest command heard of it.
        sent_at: the latest sending time heard of it.
        read_at, read_s: the planner's time that our monotonic clock stood for at `read_s`.
    """

    epoch: int
    point: FencePoint
    sent_at: datetime
    read_at: datetime
    read_s: float

    def now(self, monotonic_s: float) -> datetime:
        """The planner's time; it may be later than that, never earlier."""
        return self.read_at + timedelta(seconds=max(0.0, monotonic_s - self.read_s))


def heard(known: PlannerClock | None, command: Command, *, sent_at: datetime, monotonic_s: float) -> PlannerClock:
    """Take note of a command, obeyed or not: how old it is does not matter, only that it was sent then.

    Args:
        known: what was known before; None: this life has heard nothing yet.
        command: what arrived.
        sent_at: when the planner sent it, in its clock.
        monotonic_s: our monotonic clock.
    """
    epoch, point = command.fence.epoch, point_of(command)
    fresh = PlannerClock(epoch=epoch, point=point, sent_at=sent_at, read_at=sent_at, read_s=monotonic_s)
    if known is None or epoch > known.epoch:
        return fresh
    if epoch < known.epoch:
        return known
    if point > known.point and sent_at < known.sent_at:
        return fresh  # a newer command that was sent earlier: the leader's clock was put back
    newest = max(point, known.point)
    if sent_at > known.now(monotonic_s):
        return PlannerClock(epoch=epoch, point=newest, sent_at=sent_at, read_at=sent_at, read_s=monotonic_s)
    return PlannerClock(
        epoch=epoch,
        point=newest,
        sent_at=max(sent_at, known.sent_at),
        read_at=known.read_at,
        read_s=known.read_s,
    )
