"""A device of a node failed: stop first, take the node out of use, and tell the judge.

The condition itself says how grave it is (DeviceEvidence). What a user's program caused, what only follows from
something else, and what asks for nothing stops no gang and costs no node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fault_contracts.hardware import costs_node, costs_work
from fault_contracts.health import ConditionRaised
from fault_contracts.payload import Reason
from fault_contracts.recovery import NodeFaulted
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_stop import Fate, fault
from recovery_planner.domain.member import Member, Standing
from recovery_planner.domain.node_fit import SENTENCE_MAX
from recovery_planner.domain.node_fitness import hold_back, weigh
from recovery_planner.domain.withheld import observes, withhold
from training_topology.identity import NodeId

FAULTS_KEPT = 16
"""Device faults of one node remembered by their condition; whoever has more is out of use for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFaultSeen:
    """health-ingest raised a failure of a node that this job knows."""

    condition: ConditionRaised


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFaultCleared:
    """A condition of a node is over."""

    node_id: str
    condition_id: str
    sentence: str


def node_fault_seen(draft: Draft, seen: NodeFaultSeen) -> None:
    """Stop the gang if the node trains in it, hold the node back if the device needs the machine."""
    raised = seen.condition
    gang = draft.gang
    member = gang.members.get(raised.node_id)
    if member is None or gang.phase is Phase.ENDED or member.standing is Standing.LEFT:
        draft.ignore("report.stale", f"a fault of {raised.node_id}: no member that could be concerned")
        return
    if raised.condition_id in (*member.faults, *member.faults_over):
        draft.explain("report.repeated", f"{raised.check} of {raised.node_id} is known", raised.condition_id)
        return
    named = fault_sentence(raised)
    if not costs_work(raised.device):
        draft.explain("node.fault_costs_nothing", f"{raised.node_id}: {named}; nothing is stopped", raised.condition_id)
        return
    condemns = costs_node(raised.device)
    _remember(draft, member, raised.condition_id, named, condemns=condemns and not observes(gang))
    reason = draft.explain("node.fault", f"{raised.node_id}: {named}", raised.condition_id)
    if observes(gang):
        withhold(draft, "condemn_node" if condemns else "stop", reason, node_id=raised.node_id, cause=raised.check)
        return
    if gang.is_seated(raised.node_id) and gang.phase is not Phase.FORMING:
        _stop(draft, raised, reason, condemns=condemns)
    member = draft.gang.members[raised.node_id]
    if member.held and member.standing is Standing.PRESENT:
        hold_back(draft, member)


def node_fault_cleared(draft: Draft, cleared: NodeFaultCleared) -> None:
    """With the last of its faults over, a node is as good as its standing says."""
    member = draft.gang.members.get(cleared.node_id)
    if member is None or cleared.condition_id not in member.faults:
        draft.ignore("report.stale", f"{cleared.condition_id} of {cleared.node_id} is over; nothing was held for it")
        return
    left = tuple(each for each in member.faults if each != cleared.condition_id)
    over = (*member.faults_over, cleared.condition_id)[-FAULTS_KEPT:]
    # What its standing says is weighed below, where it is known.
    held = member.held if left else ""
    draft.change_member(replace(member, faults=left, faults_over=over, held=held))
    draft.explain("node.fault_over", f"{cleared.node_id}: {cleared.sentence}", cleared.condition_id)
    weigh(draft, cleared.node_id)


def fault_sentence(raised: ConditionRaised) -> str:
    """Which device, and what it has, for a person."""
    device = raised.device
    name = "" if device is None else device.gpu_uuid
    name = name or raised.component_id
    code = "" if device is None else _code(device.xid, device.sxid)
    who = f"{raised.component} {name}: " if name else ""
    return f"{who}{raised.reason}{code or f' ({raised.check})'}"[:SENTENCE_MAX]


def _code(xid: int | None, sxid: int | None) -> str:
    if xid is not None:
        return f" (Xid {xid})"
    return "" if sxid is None else f" (SXid {sxid})"


def _remember(draft: Draft, member: Member, condition_id: str, named: str, *, condemns: bool) -> None:
    if condemns:
        faults = (*member.faults, condition_id)[-FAULTS_KEPT:]
        draft.change_member(replace(member, faults=faults, held=member.held or named))
    else:
        # Known, so that a copy stops nothing again; it holds nothing back.
        over = (*member.faults_over, condition_id)[-FAULTS_KEPT:]
        draft.change_member(replace(member, faults_over=over))


def _stop(draft: Draft, raised: ConditionRaised, reason: Reason, *, condemns: bool) -> None:
    """Break the generation, or join the stop that is under way, and give the judge its evidence."""
    gang = draft.gang
    if gang.is_live and raised.node_id in gang.completed:
        draft.explain("node.fault_after_work", f"all ranks of {raised.node_id} had ended with 0; nothing is stopped")
        return
    # The ranks of a node that is given up end in any mode: none of them may go on at a barrier.
    own = tuple(map(int, gang.table.ranks_of(NodeId(raised.node_id)))) if condemns else ()
    fate = Fate(dead=False, condemned=condemns, others=own)
    fault(draft, reason, node_id=raised.node_id, rank=None, observed_at=raised.raised_at, fate=fate)
    draft.emit(
        NodeFaulted(
            job_id=gang.job_id,
            node_id=raised.node_id,
            topology_version=gang.table.topology_version,
            incident_id=draft.incident.incident_id,
            condition=raised,
            reason=reason,
            faulted_at=draft.now,
        )
    )
