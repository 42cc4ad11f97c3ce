"""A node gives notice, or is to be emptied: a checkpoint first, then a stop by plan, then a gang without that node.

All ranks have to save after the same step, so one request is made in a generation, whoever gives notice after the first
one: its step is the first one's. The gang is stopped as soon as that checkpoint is confirmed, or when the first of the
nodes has to go. Being taken away is nobody's fault, so it is not charged to the restart budget. A node that is emptied
by its operator has time: no checkpoint is asked for, the next one that the job saves by itself is the moment to stop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fault_contracts.preemption import PreemptionNoticed, RequestCheckpoint
from recovery_planner.domain.checkpoint_history import (
    DATA,
    CheckpointHistory,
    Confirmation,
    KindHistory,
    is_complete,
    whole_checkpoints,
)
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Gang, Phase, Preemption
from recovery_planner.domain.gang_stop import PLANNED, Fate, fault
from recovery_planner.domain.member import Standing
from recovery_planner.domain.rank_set import count
from recovery_planner.domain.worker_reports import speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWithdrawn:
    """A node is to be emptied by then; it is held already, so that nobody takes its place there again."""

    node_id: str
    by: datetime
    sentence: str


def node_withdrawn(draft: Draft, event: NodeWithdrawn) -> None:
    """Stop after the next checkpoint, at the latest then."""
    gang = draft.gang
    if not gang.is_live or not gang.is_seated(event.node_id) or not gang.is_present(event.node_id):
        draft.explain("report.stale", f"{event.node_id} is to be emptied; no ranks of this job are there")
        return
    known = gang.preemption
    if known is not None and event.node_id in known.nodes:
        draft.explain("report.repeated", f"{event.node_id} is to be emptied; that is known")
        return
    reason = draft.explain("drain.asked", f"{event.node_id} is to be emptied: {event.sentence}", draft.cause_id)
    if known is not None:
        nodes = known.nodes | {event.node_id}
        draft.change(preemption=replace(known, nodes=nodes, deadline_at=min(known.deadline_at, event.by)))
        return
    newest = max((whole.confirmation.step for whole in whole_checkpoints(draft.history)), default=-1)
    asked = Preemption(
        nodes=frozenset({event.node_id}), at_step=newest + 1, deadline_at=max(event.by, draft.now), reason=reason
    )
    draft.change(preemption=asked)


def preemption_noticed(draft: Draft, notice: PreemptionNoticed) -> None:
    """A node of the gang will be gone soon."""
    if speaker(draft, notice.node_id, notice.instance_id, notice.topology_version, "a notice") is None:
        return
    gang = draft.gang
    if gang.phase not in (Phase.STARTING, Phase.RUNNING):
        draft.ignore("report.stale", f"a notice of {notice.node_id}: the gang is {gang.phase}, nobody trains")
        return
    known = gang.preemption
    if known is not None and notice.node_id in known.nodes:
        draft.ignore("report.repeated", f"{notice.node_id} has given notice before")
        return
    sentence = f"{notice.node_id} is about to be taken away: {notice.reason}"
    reason = draft.explain("preemption.noticed", sentence, draft.cause_id)
    deadline_at = draft.now + timedelta(seconds=notice.within_s)
    if known is not None:
        nodes = known.nodes | {notice.node_id}
        draft.change(preemption=replace(known, nodes=nodes, deadline_at=min(known.deadline_at, deadline_at)))
        return
    draft.change(
        preemption=Preemption(
            nodes=frozenset({notice.node_id}), at_step=notice.at_step, deadline_at=deadline_at, reason=reason
        )
    )
    draft.emit(
        RequestCheckpoint(
            job_id=gang.job_id,
            fence=draft.fence(),
            operation_id=draft.operation_id("request_checkpoint"),
            expires_at=draft.expires_at(),
            at_step=notice.at_step,
            within_s=notice.within_s,
            reason=reason,
        )
    )


def stop_for_preemption(draft: Draft) -> None:
    """Stop the gang when its checkpoint is there, or when it has to be done without."""
    gang = draft.gang
    asked = gang.preemption
    if asked is None or gang.phase not in (Phase.STARTING, Phase.RUNNING):
        return
    step = saved_step(draft.history, gang, at_step=asked.at_step)
    if step is not None:
        rule, end = "preemption.saved", f"the checkpoint of step {step} is saved"
    elif draft.now >= asked.deadline_at:
        rule, end = "preemption.not_saved", f"no checkpoint from step {asked.at_step} on was saved in time"
    else:
        return
    reason = draft.explain(rule, f"{asked.reason.sentence}; {end}", *asked.reason.evidence_ids)
    fate = PLANNED if gang.incident is None else Fate(dead=False)  # an open incident stays the fault that it is
    fault(draft, reason, node_id=min(asked.nodes), rank=None, observed_at=draft.now, fate=fate)


def saved_step(history: CheckpointHistory, gang: Gang, *, at_step: int) -> int | None:
    """The first checkpoint of this generation from a step on that every required rank confirmed; None: not yet."""
    found = [
        whole.confirmation.step
        for whole in whole_checkpoints(history)
        if whole.confirmation.topology_version == gang.table.topology_version
        and whole.confirmation.step >= at_step
        and _is_answer(whole.confirmation, history.kinds[whole.kind], gang)
        and (whole.data is None or _is_answer(whole.data, history.kinds[DATA], gang))
    ]
    return min(found, default=None)


def _is_answer(confirmation: Confirmation, kind: KindHistory, gang: Gang) -> bool:
    """Who has to confirm is known from earlier checkpoints. With the first of all, it is every rank or the deadline."""
    if confirmation.writers is None and len(kind.confirmations) == 1:
        return count(confirmation.ranks) >= gang.table.world_size
    return is_complete(confirmation, kind)


def has_left(draft: Draft) -> bool:
    """The stop was by notice, and whoever gave it is gone: there is no cause to find out, and nothing to wait for."""
    asked = draft.gang.preemption
    if not draft.incident.by_notice or asked is None:
        return False
    return not any(draft.gang.is_present(node) and not draft.gang.members[node].held for node in asked.nodes)


def leave_out(draft: Draft) -> None:
    """Whoever gave notice gets no place any more, also when its agent has not left yet."""
    asked = draft.gang.preemption
    for node_id in sorted(asked.nodes) if asked is not None else ():
        # One that is held is taken out of use below, and may come back.
        if draft.gang.is_present(node_id) and not draft.gang.members[node_id].held:
            draft.change_member(replace(draft.gang.members[node_id], standing=Standing.LEFT))
            draft.explain("preemption.left_out", f"{node_id} gave notice and gets no place any more")
