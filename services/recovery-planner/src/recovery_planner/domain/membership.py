"""Agents that come, come back as another life, leave, or are found gone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fault_contracts.agent import AgentHeartbeat, AgentLeft, AgentPhase, AgentReported, JobSpec
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.ending import tell_again
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.gang_machine import Trigger
from recovery_planner.domain.gang_stop import fault, lose
from recovery_planner.domain.member import FORMER_INSTANCES_MAX, Member, Standing, is_idle
from training_topology.topology import RankTable

REFUSED_MAX = 64
"""Odd agents remembered with their reason; more of them are refused all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLost:
    """Whoever watches the agents found that one life of an agent is gone."""

    node_id: str
    instance_id: str
    rule_id: str
    sentence: str


def misfit(gang: Gang, spec: JobSpec) -> str:
    """Why an agent that brings `spec` cannot be part of this job; empty when it can."""
    differing = [
        f"{name} is {getattr(spec, name)!r}, the job has {getattr(gang.spec, name)!r}"
        for name in type(spec).model_fields
        if getattr(spec, name) != getattr(gang.spec, name)
    ]
    return "; ".join(differing)


def agent_reported(draft: Draft, report: AgentReported) -> None:
    """An agent is here: a new member, a known one, or another life of a known one."""
    if draft.gang.phase is Phase.ENDED and not _reopen(draft, report):
        return
    gang = draft.gang
    if reason := misfit(gang, report.spec):
        draft.explain("admission.refused", f"{report.node_id}: {reason}")
        if report.node_id not in gang.refused and len(gang.refused) < REFUSED_MAX:
            draft.change(refused={**gang.refused, report.node_id: reason})
        return
    member = gang.members.get(report.node_id)
    if member is None:
        _join(draft, report)
    elif report.instance_id in member.former_instances:
        draft.ignore("report.former_life", f"{report.node_id}: late report of instance {report.instance_id}")
    elif report.instance_id != member.instance_id:
        _reborn(draft, member, report)
    elif report.reported_at >= member.reported_at:
        _refresh(draft, member, report)
    else:
        draft.ignore("report.late", f"{report.node_id}: a newer report is known")


def _reopen(draft: Draft, report: AgentReported) -> bool:
    """A job that ended: is this one of its agents that missed the end, or the first of a new run?"""
    gang = draft.gang
    member = gang.members.get(report.node_id)
    if member is not None and report.instance_id in (member.instance_id, *member.former_instances):
        if report.phase is not AgentPhase.SHUTDOWN and member.standing is not Standing.LEFT:
            _tell_again(draft, report)
        return False
    ended_at = gang.ending.ended_at if gang.ending else gang.born_at
    if report.reported_at <= ended_at:
        # It came before the end and its report came late, or its clock is behind: either way it waits to be told.
        draft.ignore("report.late", f"{report.node_id} came before the job ended; there is nothing left to join")
        _tell_again(draft, report)
        return False
    draft.move(Trigger.REUSED)
    draft.gang = Gang(
        job_id=gang.job_id,
        born_at=draft.now,
        spec=report.spec,
        # Versions and sequence numbers go on, so that whatever is left of the old run stays fenced.
        table=RankTable(topology_version=gang.table.topology_version),
        starts=gang.starts,
        effect_seq=gang.effect_seq,
        pending=tuple(replace(left, run=left.run or gang.born_at.isoformat()) for left in gang.pending),
    )
    draft.explain("job.reused", f"job {gang.job_id} had ended; {report.node_id} begins a new run of it")
    return True


def _tell_again(draft: Draft, report: AgentReported) -> None:
    tell_again(draft, report.node_id, asked_by=f"{report.instance_id} {report.reported_at.isoformat()}")


def _member_of(report: AgentReported, arrival: int) -> Member:
    return Member(
        node_id=report.node_id,
        instance_id=report.instance_id,
        address=report.address,
        master_port=report.master_port,
        arrival=arrival,
        reported_at=report.reported_at,
        node_rank_wanted=report.node_rank_wanted,
        phase=report.phase,
        in_process=report.in_process,
        checkpoint_found=report.checkpoint_found,
        labels=report.node_labels,
    )


def _of_same_node(report: AgentReported, member: Member) -> Member:
    """With what is held against the node."""
    return replace(
        _member_of(report, member.arrival),
        held=member.held,
        doubt=member.doubt,
        faults=member.faults,
        faults_over=member.faults_over,
        by_fitness=member.by_fitness,
        blamed=member.blamed,
    )


def _join(draft: Draft, report: AgentReported) -> None:
    gang = draft.gang
    if len(gang.members) >= draft.policy.members_max:
        draft.explain("admission.full", f"{report.node_id}: the job has {len(gang.members)} agents, which is the limit")
        return
    draft.change_member(_member_of(report, gang.arrivals))
    draft.change(arrivals=gang.arrivals + 1)
    draft.explain("admission.joined", f"{report.node_id} joined as number {gang.arrivals + 1}")


def _reborn(draft: Draft, member: Member, report: AgentReported) -> None:
    """Another life of the agent: the ranks of the one before died with it, for no worker outlives its agent."""
    former = (member.instance_id, *member.former_instances)[:FORMER_INSTANCES_MAX]
    # A new process does not make the machine another one.
    standing = Standing.CONDEMNED if member.standing is Standing.CONDEMNED else Standing.PRESENT
    draft.change_member(replace(_of_same_node(report, member), former_instances=former, standing=standing))
    reason = draft.explain(
        "agent.restarted", f"the agent of {report.node_id} is another process now; the ranks of the one before are dead"
    )
    if not draft.gang.is_seated(report.node_id):
        return
    # The new life may have heard the start that was meant for the one before, and then it does have ranks: so it has to
    # answer a stop like everybody else, and one that it has surely heard, for it listens before it reports.
    match draft.gang.phase:
        case Phase.STARTING | Phase.RUNNING:
            fault(draft, reason, node_id=report.node_id, rank=None, observed_at=report.reported_at)
        case Phase.STOPPING:
            draft.change(stopped=draft.gang.stopped - {report.node_id})
            draft.emit_stop(reason)
        case Phase.FORMING | Phase.DECIDING | Phase.WAITING | Phase.ENDED:
            pass


def _refresh(draft: Draft, member: Member, report: AgentReported) -> None:
    fresh = replace(_of_same_node(report, member), former_instances=member.former_instances)
    if member.standing is Standing.LOST:
        draft.explain("agent.returned", f"{report.node_id} answers again")
    else:
        fresh = replace(fresh, standing=member.standing, table_version=member.table_version)
    if report.topology_version != draft.gang.table.topology_version:
        # What it says of its ranks is about another generation.
        fresh = replace(fresh, in_process=member.in_process)
    if replace(fresh, phase=member.phase, reported_at=member.reported_at) != member:
        draft.change_member(fresh)
    elif fresh != member:
        # The phase alone steers nothing that WorkersStopped and WorkersStarted do not say with more weight.
        draft.advise(members={**draft.gang.members, member.node_id: fresh})


def agent_beat(draft: Draft, beat: AgentHeartbeat) -> None:
    """A stray agent says that it has no ranks. It does not report that by itself: it was told nothing, it stood by."""
    member = draft.gang.members.get(beat.node_id)
    if draft.gang.phase is Phase.ENDED or member is None or member.instance_id != beat.instance_id:
        draft.ignore("report.stale", f"{beat.node_id}: a heartbeat of no member")
    elif draft.gang.is_stray(member) and is_idle(beat.phase):
        draft.explain("agent.returned", f"{beat.node_id} is there and has no ranks")
        draft.change_member(replace(member, standing=Standing.PRESENT, phase=beat.phase, table_version=0))


def agent_left(draft: Draft, left: AgentLeft) -> None:
    """An agent leaves on purpose; its ranks are stopped."""
    member = draft.gang.members.get(left.node_id)
    if member is None or member.instance_id != left.instance_id or member.standing is Standing.LEFT:
        draft.ignore("report.stale", f"{left.node_id}: an agent that is not a member left")
        return
    reason = draft.explain("agent.left", f"the agent of {left.node_id} left: {left.reason}")
    draft.change_member(replace(member, phase=AgentPhase.SHUTDOWN))
    lose(draft, left.node_id, Standing.LEFT, reason, observed_at=left.left_at)


def agent_lost(draft: Draft, lost: AgentLost) -> None:
    """An agent no longer answers."""
    member = draft.gang.members.get(lost.node_id)
    if member is None or member.instance_id != lost.instance_id or not member.is_there:
        draft.ignore("report.stale", f"{lost.node_id}: not a member that could be lost")
        return
    reason = draft.explain(lost.rule_id, lost.sentence)
    lose(draft, lost.node_id, Standing.LOST, reason, observed_at=draft.now)
