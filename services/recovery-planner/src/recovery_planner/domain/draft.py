"""The gang while one event is being decided: a value that is replaced, what is to be published, and why.

Lives for one `step` and is never seen outside of it, so a decision that raises leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fault_contracts.commands import StopWorkers
from fault_contracts.payload import Fence, Payload, Reason
from fault_contracts.recovery import JournalEntry
from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.gang import Effect, Gang, operation_id
from recovery_planner.domain.gang_machine import Trigger, target
from recovery_planner.domain.incident import Incident
from recovery_planner.domain.member import Member
from recovery_planner.domain.node_fit import NOTHING_KNOWN, Fits
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.shared_causes import Sightings


class Draft:
    """Collects the changes of one step.

    Attributes:
        gang: the record as changed so far.
        before: the record as it was.
        staffed: an agent came, or can be counted on otherwise than before.
        reasons: one for each thing that was decided, or that was ignored.
        durable: False while nothing but advisory progress changed, which is not worth a write.
        ignored: the event does not fit the record.
        fits: what is known of nodes beside the record, see `node_fit`.
        sightings: faults of other nodes and jobs in the last minutes, see `shared_causes`.
    """

    __slots__ = (
        "before",
        "cause_id",
        "durable",
        "fits",
        "gang",
        "history",
        "ignored",
        "now",
        "policy",
        "reasons",
        "sightings",
        "staffed",
    )

    def __init__(
        self,
        gang: Gang,
        *,
        now: datetime,
        policy: Policy,
        history: CheckpointHistory,
        cause_id: str = "",
        fits: Fits = NOTHING_KNOWN,
        sightings: Sightings = (),
    ) -> None:
        self.gang = gang
        self.before = gang
        self.staffed = False
        self.now = now
        self.policy = policy
        self.history = history
        self.cause_id = cause_id
        self.fits = fits
        self.sightings = sightings
        self.reasons: list[Reason] = []
        self.durable = False
        self.ignored = False

    @property
    def incident(self) -> Incident:
        """The open incident; the caller knows that there is one."""
        assert self.gang.incident is not None, f"{self.gang.phase} without an incident"
        return self.gang.incident

    def change(self, **fields: Any) -> None:
        """Replace fields of the gang."""
        self.gang = replace(self.gang, **fields)
        self.durable = True

    def advise(self, **fields: Any) -> None:
        """Replace fields that are good to know and not worth a write of their own."""
        self.gang = replace(self.gang, **fields)

    def note_step(self, step: int) -> None:
        """Remember the largest step, of this generation and of all; not worth a write of its own."""
        if self.gang.step_max is None or step > self.gang.step_max:
            self.advise(step_max=step)
        if self.gang.step_now is None or step > self.gang.step_now:
            self.advise(step_now=step)

    def change_member(self, member: Member) -> None:
        """Add or replace a member."""
        self.change_members({member.node_id: member})

    def change_members(self, members: Mapping[str, Member]) -> None:
        """Add or replace many; the dictionary is copied once, which costs in proportion to the gang."""
        before = self.gang.members
        for node_id, member in members.items():
            known = before.get(node_id)
            self.staffed = self.staffed or known is None or known.standing is not member.standing
        self.change(members={**before, **members})

    def change_incident(self, **fields: Any) -> None:
        """Replace fields of the open incident."""
        self.change(incident=replace(self.incident, **fields))

    def move(self, trigger: Trigger, *, deadline_in_s: float | None = None) -> None:
        """Take one move of the table; every move sets the next deadline or clears it.

        Raises:
            IllegalMove: the table has no such move.
        """
        phase = target(self.gang.phase, trigger)
        deadline_at = None if deadline_in_s is None else self.now + timedelta(seconds=deadline_in_s)
        self.change(phase=phase, deadline_at=deadline_at)

    def emit(self, payload: Payload) -> None:
        """Decide to publish something. Entries of the journal are numbered, so that a lost one shows."""
        if isinstance(payload, JournalEntry):
            self.change(journal_seq=self.gang.journal_seq + 1)
            payload = payload.model_copy(update={"entry": self.gang.journal_seq})
        seq = self.gang.effect_seq + 1
        effect = Effect(seq=seq, payload=payload, cause_id=self.cause_id)
        self.change(effect_seq=seq, pending=(*self.gang.pending, effect))

    def explain(self, rule_id: str, sentence: str, *evidence_ids: str) -> Reason:
        """Say why something was decided or ignored."""
        reason = Reason(rule_id=rule_id, sentence=sentence[:2_048], evidence_ids=evidence_ids)
        self.reasons.append(reason)
        return reason

    def ignore(self, rule_id: str, sentence: str, *evidence_ids: str) -> None:
        """Say why an event changes nothing. A leader whose copy is old may think so wrongly, see `Step.ignored`."""
        self.ignored = True
        self.explain(rule_id, sentence, *evidence_ids)

    def fence(self) -> Fence:
        """The fence of a command of this moment; the epoch is put in when it is published."""
        incident = self.gang.incident
        return Fence(
            topology_version=self.gang.table.topology_version,
            attempt=incident.attempt if incident else 0,
            incident_id=incident.incident_id if incident else "",
            epoch=0,
        )

    def operation_id(self, verb: str) -> str:
        """The stable id of an order of this moment."""
        fence = self.fence()
        return operation_id(self.gang.job_id, fence.incident_id, fence.attempt, verb, fence.topology_version)

    def expires_at(self, ttl_s: float | None = None) -> datetime:
        """End of validity of a command; moved on when it is published later than decided."""
        return self.now + timedelta(seconds=self.policy.command_ttl_s if ttl_s is None else ttl_s)

    def emit_stop(self, reason: Reason) -> None:
        """Order every rank of the current topology_version to stop, in the mode of the incident."""
        self.emit(
            StopWorkers(
                job_id=self.gang.job_id,
                fence=self.fence(),
                operation_id=self.operation_id("stop_workers"),
                expires_at=self.expires_at(),
                grace_s=self.gang.spec.stop_grace_s,
                mode=self.incident.stop_mode,
                ranks=self.incident.condemned or None,
                barrier_s=self.gang.spec.barrier_s,
                reason=reason,
            )
        )
