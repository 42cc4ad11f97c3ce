"""The circuit breaker: how many nodes may be taken out of use at a time and in a while, and what follows beyond that.

    CLOSED ──one more would be too many──▶ OPEN ──open_s──▶ HALF_OPEN ──its node came back well──▶ CLOSED
                                            ▲                   │
                                            └── it did not ─────┘

While half open exactly one node is taken. The share of nodes out of use is never exceeded, by a trial neither; a trial
is what may exceed the count of a window. A person's quarantine is not asked for leave, but counts as out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fault_contracts.cluster_policy import BreakerPolicy
from fault_contracts.payload import Reason
from fault_contracts.remediation import BreakerState

TAKES_KEPT = 10_000
"""Larger than any window's limit that makes sense; the oldest go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Nodes that the planner knows, and those of them that are out of use."""

    known: int
    out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The record.

    Attributes:
        since: start of the state; None: it never moved.
        trial: the node that is out on trial, while half open.
        takes: when nodes were taken, oldest first, as far as they count.
    """

    state: BreakerState = BreakerState.CLOSED
    since: datetime | None = None
    trial: str = ""
    takes: tuple[datetime, ...] = ()
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """May this node be taken?"""

    granted: bool
    on_trial: bool
    breaker: Breaker
    reason: Reason


def share_limit(policy: BreakerPolicy, known: int) -> int:
    """Nodes that may be out of use at a time."""
    return max(1, int(policy.share_max * known))


def taken_within(breaker: Breaker, now: datetime, policy: BreakerPolicy) -> tuple[datetime, ...]:
    """Takes that the window still holds."""
    since = now - timedelta(seconds=policy.window_s)
    return tuple(at for at in breaker.takes if at > since)


def ask_leave(breaker: Breaker, node_id: str, census: Census, *, now: datetime, policy: BreakerPolicy) -> Leave:
    """Ask for one node. What is granted is counted."""
    counted = replace(breaker, takes=taken_within(breaker, now, policy))
    full = _full(counted, census, policy)
    match breaker.state:
        case BreakerState.CLOSED if full is None:
            return _granted(counted, node_id, census, now, policy)
        case BreakerState.CLOSED:
            assert full is not None, "the case above"
            opened = replace(counted, state=BreakerState.OPEN, since=now, trial="", reason=full)
            return Leave(granted=False, on_trial=False, breaker=opened, reason=full)
        case BreakerState.OPEN:
            return _ask_open(counted, node_id, census, now, policy)
        case BreakerState.HALF_OPEN:
            sentence = f"the breaker is half open, and {breaker.trial} is out on trial"
            reason = Reason(rule_id="breaker.half_open", sentence=sentence)
            return Leave(granted=False, on_trial=False, breaker=counted, reason=reason)


def settle_trial(breaker: Breaker, node_id: str, *, well: bool, now: datetime) -> Breaker:
    """The story of a node ended. Only that of the node on trial moves the breaker."""
    if breaker.state is not BreakerState.HALF_OPEN or breaker.trial != node_id:
        return breaker
    if well:
        # What was taken before the trial is forgiven: else the next node would open it again at once.
        reason = Reason(rule_id="breaker.closed", sentence=f"{node_id} was taken on trial and came back well")
        return Breaker(state=BreakerState.CLOSED, since=now, reason=reason)
    reason = Reason(rule_id="breaker.trial_failed", sentence=f"{node_id} was taken on trial and did not come back well")
    return replace(breaker, state=BreakerState.OPEN, since=now, trial="", reason=reason)


def _full(breaker: Breaker, census: Census, policy: BreakerPolicy) -> Reason | None:
    limit = share_limit(policy, census.known)
    if census.out >= limit:
        sentence = f"{census.out} of {census.known} nodes are out of use, and {limit} may be at a time"
        return Reason(rule_id="breaker.share", sentence=sentence)
    if len(breaker.takes) >= policy.nodes_max:
        sentence = f"{len(breaker.takes)} nodes were taken in the last {policy.window_s:g} s, which is the limit"
        return Reason(rule_id="breaker.count", sentence=sentence)
    return None


def _granted(breaker: Breaker, node_id: str, census: Census, now: datetime, policy: BreakerPolicy) -> Leave:
    taken = replace(breaker, takes=(*breaker.takes, now)[-TAKES_KEPT:])
    sentence = (
        f"{node_id} may be taken: {census.out} of {census.known} nodes are out of use, "
        f"{len(breaker.takes)} of {policy.nodes_max} were taken in the last {policy.window_s:g} s"
    )
    reason = Reason(rule_id="breaker.granted", sentence=sentence)
    return Leave(granted=True, on_trial=False, breaker=taken, reason=reason)


def _ask_open(breaker: Breaker, node_id: str, census: Census, now: datetime, policy: BreakerPolicy) -> Leave:
    assert breaker.since is not None, "it was opened"
    due = breaker.since + timedelta(seconds=policy.open_s)
    if now < due:
        sentence = f"the breaker is open until {due:%Y-%m-%d %H:%M:%S} UTC: no node is taken"
        reason = Reason(rule_id="breaker.open", sentence=sentence)
        return Leave(granted=False, on_trial=False, breaker=breaker, reason=reason)
    if census.out >= share_limit(policy, census.known):
        full = _full(breaker, census, policy)
        assert full is not None, "its first condition"
        return Leave(granted=False, on_trial=False, breaker=replace(breaker, reason=full), reason=full)
    sentence = f"the breaker was open for {policy.open_s:g} s: {node_id} is taken on trial, and no other"
    reason = Reason(rule_id="breaker.trial", sentence=sentence)
    tried = replace(
        breaker,
        state=BreakerState.HALF_OPEN,
        since=now,
        trial=node_id,
        takes=(*breaker.takes, now)[-TAKES_KEPT:],
        reason=reason,
    )
    return Leave(granted=True, on_trial=True, breaker=tried, reason=reason)
