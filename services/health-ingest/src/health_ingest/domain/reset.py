"""What ends conditions that neither good samples nor quiet end: a boot, a reset of the device, the driver's word."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from fault_contracts.payload import Reason
from health_ingest.domain.condition import TRANSITIONS, Condition, Phase, Step, Trigger, unchanged
from health_ingest.domain.condition_events import cleared
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.ruling import Clears
from health_ingest.domain.times import forget_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Something began anew.

    Attributes:
        node_id: where.
        component_id: of the device; empty: the whole machine.
        fault_class: only this class, whatever ends it otherwise; None: all that wait for a reset.
        boot_id: what the machine is in since; empty: not said. A condition of the same boot is not ended by a boot.
        at: the node's clock; what was observed later still holds.
        evidence_id: of the message that told it.
    """

    node_id: str
    component_id: str = ""
    fault_class: str | None = None
    boot_id: str = ""
    at: datetime
    sentence: str
    evidence_id: str

    def may_end(self, condition: Condition, policy: ConditionPolicy) -> bool:
        """Whether a condition is one of those that it ends, times aside."""
        entity = condition.entity
        if entity.node_id != self.node_id or (self.component_id and entity.component_id != self.component_id):
            return False
        if self.fault_class is not None:
            return entity.check == self.fault_class
        if self.boot_id and (not condition.boot_id or condition.boot_id == self.boot_id):
            return False
        return condition.clears(policy) is Clears.RESET


def boot(node_id: str, boot_id: str, at: datetime, *, evidence_id: str) -> Reset:
    """The machine was booted anew, as the first message of the new boot shows."""
    return Reset(
        node_id=node_id, boot_id=boot_id, at=at, sentence=f"{node_id} was booted anew", evidence_id=evidence_id
    )


def reset(condition: Condition, event: Reset, *, now: datetime, policy: ConditionPolicy) -> Step:
    """End a condition by a reset, when it is one that a reset ends and it is older."""
    if condition.phase is Phase.CLEAR or not event.may_end(condition, policy):
        return unchanged(condition, "not_reset", "this reset ends other conditions")
    if condition.bad_observed_at is not None and condition.bad_observed_at >= event.at:
        return unchanged(condition, "overtaken", f"{condition.entity.check} was seen after the reset")
    reason = Reason(rule_id="condition.reset", sentence=event.sentence[:2_048], evidence_ids=(event.evidence_id,))
    ended = replace(
        condition,
        phase=TRANSITIONS[condition.phase, Trigger.RESET],
        changed_at=now,
        # A kernel log that is read again tells what the reset has ended.
        bad_observed_at=event.at,
    )
    ended = replace(ended, deadline_at=forget_at(ended, policy))
    return Step(condition=ended, effects=(cleared(ended, reason, now),), reason=reason)
