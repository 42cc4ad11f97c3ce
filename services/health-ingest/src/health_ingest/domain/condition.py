"""What a condition is: the folded history of one (device, fault class), and the moves that it can make.

Everything that changes the phase of a condition is in TRANSITIONS. Three ideas:

- Two tiers. A problem is tolerated for a window, a failure is acted on. Some faults have no window.
- Every end has evidence: fresh good samples in a row, quiet on a node that is heard, or a reset.
- Silence is unknown. An unknown sample clears nothing and breaks a row of good ones; it never raises anything either.

The moves themselves: observe.py (signals), pass_time.py (time), reset.py (what a reset ends).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fault_contracts.health import ConditionCleared, ConditionRaised
from fault_contracts.payload import Reason
from health_ingest.domain.applied import NOTHING_APPLIED, Applied
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.ruling import Clears, Ruling
from health_ingest.domain.seen import Seen
from health_ingest.domain.signal import Entity, Signal

SIGNAL_IDS_MAX = 64
"""As many as ConditionRaised carries. Of signals without a place in a stream these are also what a copy is known by."""
CODES_MAX = 32
"""Codes that are counted one by one; a class of the policy has fewer, what comes beyond is counted as `other`."""
OTHER_CODES = "other"


class Phase(StrEnum):
    """Of one condition."""

    CLEAR = "clear"
    PROBLEM = "problem"
    FAILURE = "failure"


class Trigger(StrEnum):
    """What can move a condition."""

    BAD = "bad"
    BAD_AT_ONCE = "bad_at_once"
    GOOD_ENOUGH = "good_enough"
    QUIET_PASSED = "quiet_passed"
    RESET = "reset"
    WINDOW_PASSED = "window_passed"
    PROCESS_FORGOTTEN = "process_forgotten"


TRANSITIONS: dict[tuple[Phase, Trigger], Phase] = {
    (Phase.CLEAR, Trigger.BAD): Phase.PROBLEM,
    (Phase.CLEAR, Trigger.BAD_AT_ONCE): Phase.FAILURE,
    (Phase.PROBLEM, Trigger.BAD): Phase.PROBLEM,
    (Phase.PROBLEM, Trigger.BAD_AT_ONCE): Phase.FAILURE,
    (Phase.PROBLEM, Trigger.GOOD_ENOUGH): Phase.CLEAR,
    (Phase.PROBLEM, Trigger.QUIET_PASSED): Phase.CLEAR,
    (Phase.PROBLEM, Trigger.RESET): Phase.CLEAR,
    (Phase.PROBLEM, Trigger.WINDOW_PASSED): Phase.FAILURE,
    (Phase.FAILURE, Trigger.BAD): Phase.FAILURE,
    (Phase.FAILURE, Trigger.BAD_AT_ONCE): Phase.FAILURE,
    (Phase.FAILURE, Trigger.GOOD_ENOUGH): Phase.CLEAR,
    (Phase.FAILURE, Trigger.QUIET_PASSED): Phase.CLEAR,
    (Phase.FAILURE, Trigger.RESET): Phase.CLEAR,
    (Phase.FAILURE, Trigger.PROCESS_FORGOTTEN): Phase.CLEAR,
}
"""A pair that is not here changes nothing: a clear condition cannot be cleared, a failure has no window."""

Effect = ConditionRaised | ConditionCleared


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is remembered about one (device, fault class).

    Attributes:
        entity: what it is about; its check is the fault class.
        phase: where it stands.
        condition_id: of the current or last time it was raised; empty before the first.
        count: bad observations since it was raised.
        total: bad observations of this record, those that raised nothing included.
        codes: how many of which code since it was raised, or since it began to be recorded.
        good_samples: fresh good samples in a row.
        signal_ids: the newest ones, as evidence.
        applied: which messages of the stream are taken in; empty for signals that come one by one.
        backlog: boot id and sequence of the newest kernel-log line, by which a log that is read again is known.
        bad_observed_at: the node's time up to which bad signals are accounted for; what is older raises nothing.
        bad_at: this service's time of the newest bad signal.
        raised_at: this service's time.
        changed_at: this service's time of the last change of phase.
        deadline_at: when to look whether time changes this condition; it may be too early, never too late. None: never.
        cause: the signal that raised it, or a graver one since: what a later effect still has to say.
        ruling: what the policy said of the cause; None in records of ranks and of older versions.
        history: earlier signals, for faults that count by their repeats.
        boot_id: of the machine at the newest bad signal.
    """

    entity: Entity
    phase: Phase = Phase.CLEAR
    condition_id: str = ""
    count: int = 0
    total: int = 0
    codes: tuple[tuple[str, int], ...] = ()
    good_samples: int = 0
    signal_ids: tuple[str, ...] = ()
    applied: Applied = NOTHING_APPLIED
    backlog: tuple[str, int] = ("", -1)
    bad_observed_at: datetime | None = None
    bad_at: datetime | None = None
    raised_at: datetime | None = None
    changed_at: datetime | None = None
    deadline_at: datetime | None = None
    cause: Signal | None = None
    ruling: Ruling | None = None
    history: tuple[Seen, ...] = ()
    boot_id: str = ""

    def __post_init__(self) -> None:
        assert (self.phase is Phase.CLEAR) or (self.condition_id and self.raised_at and self.cause), "raised by nothing"
        assert len(self.signal_ids) <= SIGNAL_IDS_MAX, "too many signal ids"
        assert len(self.codes) <= CODES_MAX, "too many codes"

    def ruled(self, policy: ConditionPolicy) -> Ruling:
        """What holds for it."""
        return self.ruling or policy.ruling(self.entity.check)

    def clears(self, policy: ConditionPolicy) -> Clears:
        """What ends it."""
        return self.ruled(policy).clears


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Result of one event. `condition` is None when the record can be dropped; then there is no effect."""

    condition: Condition | None
    effects: tuple[Effect, ...]
    reason: Reason


def unchanged(condition: Condition, rule: str, sentence: str) -> Step:
    """A step that tells nobody anything; the condition may have counted."""
    return Step(condition=condition, effects=(), reason=Reason(rule_id=f"condition.{rule}", sentence=sentence[:2_048]))


def named(entity: Entity) -> str:
    """For sentences."""
    return f"{entity.component} {entity.component_id} on {entity.node_id}" if entity.component_id else entity.node_id
