"""What every node of a gang reports once for each order: its ranks stopped, started, completed, stepped.

Of a gang of thousands these come thousands at a time, so each kind is written down for many nodes at once: what costs
in proportion to the gang, a new dictionary of members or a new set of nodes, is paid once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fault_contracts.agent import AgentPhase, StepReported, WorkersCompleted, WorkersStarted, WorkersStopped
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.member import Member, Standing
from recovery_planner.domain.pace import paced
from recovery_planner.domain.worker_reports import speaker
from training_topology.identity import NodeId

NodesReport = WorkersStopped | WorkersStarted | WorkersCompleted | StepReported
"""Reports that may be taken in together: they only add to what is known of their own node."""

_LIVE = (Phase.STARTING, Phase.RUNNING)
_STOPPED = (Phase.STOPPING, Phase.DECIDING, Phase.WAITING)


def take_in(draft: Draft, reports: Sequence[NodesReport]) -> None:
    """Write down what nodes report, of any of the kinds."""
    if stops := [report for report in reports if isinstance(report, WorkersStopped)]:
        workers_stopped(draft, stops)
    if starts := [report for report in reports if isinstance(report, WorkersStarted)]:
        workers_started(draft, starts)
    if completions := [report for report in reports if isinstance(report, WorkersCompleted)]:
        workers_completed(draft, completions)
    if steps := [report for report in reports if isinstance(report, StepReported)]:
        step_reported(draft, steps)


def workers_stopped(draft: Draft, reports: Iterable[WorkersStopped]) -> None:
    """Nodes have no ranks left. Their next reserved ports are good to know in any case."""
    gang = draft.gang
    order = draft.operation_id("stop_workers")
    changed: dict[str, Member] = {}
    stopped: set[str] = set()
    at_barrier: set[int] = set()
    for report in reports:
        member = changed.get(report.node_id) or gang.members.get(report.node_id)
        if member is None or member.instance_id != report.instance_id:
            draft.ignore("report.stale", f"a stop of {report.node_id}: not the life of the agent that is a member")
            continue
        if gang.phase not in _STOPPED:
            draft.ignore("report.stale", f"a stop of {report.node_id}: the gang is {gang.phase}")
            continue
        if report.operation_id != order:
            draft.ignore("report.stale", f"a stop of {report.node_id} answers another order than the current one")
            continue
        if report.stuck_pids:
            draft.explain(
                "stop.stuck", f"{report.node_id} left processes {list(report.stuck_pids)} that SIGKILL did not end"
            )
        standing = member.standing
        if standing is Standing.LOST:
            # It was left behind, but it has done what it was told: the gang still waits, and this is a node.
            draft.explain("agent.returned", f"{report.node_id} answers again")
            standing = Standing.PRESENT
        changed[report.node_id] = replace(
            member, master_port=report.master_port, phase=AgentPhase.READY, standing=standing
        )
        if gang.is_seated(report.node_id):
            stopped.add(report.node_id)
            if report.at_barrier:
                at_barrier |= set(gang.table.ranks_of(NodeId(report.node_id))) & set(report.at_barrier)
    if changed:
        draft.change_members(changed)
    if stopped:
        draft.change(stopped=gang.stopped | stopped)
    if at_barrier:
        draft.change_incident(at_barrier=draft.incident.at_barrier | at_barrier)


def workers_started(draft: Draft, reports: Iterable[WorkersStarted]) -> None:
    """All ranks of the nodes run."""
    changed: dict[str, Member] = {}
    for report in reports:
        member = speaker(draft, report.node_id, report.instance_id, report.topology_version, "a start")
        if member is None:
            continue
        if draft.gang.phase is not Phase.STARTING:
            draft.ignore("report.stale", f"a start of {report.node_id}: the gang is {draft.gang.phase}")
            continue
        changed[report.node_id] = replace(member, phase=AgentPhase.RUNNING)
    if changed:
        draft.change_members(changed)
        draft.change(started=draft.gang.started.union(changed))


def workers_completed(draft: Draft, reports: Iterable[WorkersCompleted]) -> None:
    """All ranks of the nodes ended with exit code 0."""
    changed: dict[str, Member] = {}
    for report in reports:
        member = speaker(draft, report.node_id, report.instance_id, report.topology_version, "a completion")
        if member is None:
            continue
        if draft.gang.phase not in _LIVE:
            draft.ignore("report.stale", f"a completion of {report.node_id}: the gang is {draft.gang.phase}")
            continue
        changed[report.node_id] = replace(member, phase=AgentPhase.COMPLETED)
    if changed:
        draft.change_members(changed)
        draft.change(completed=draft.gang.completed.union(changed))


def step_reported(draft: Draft, reports: Iterable[StepReported]) -> None:
    """Nodes train. The first step of a generation is a fact of the record; later ones are only advice."""
    gang = draft.gang
    pace, heard = gang.pace, False
    step_max = 0
    stepped: dict[str, int] = {}
    for report in reports:
        if gang.phase not in _LIVE or report.topology_version != gang.table.topology_version:
            draft.ignore("report.stale", f"a step of {report.node_id}: about another generation")
            continue
        step_max = max(step_max, report.step) if heard else report.step
        heard = True
        pace = paced(pace, report)
        row = gang.table.row_of(NodeId(report.node_id))
        if row is not None and report.first:
            stepped[report.node_id] = int(row.node_rank)
    if heard:
        draft.note_step(step_max)
        draft.advise(pace=pace)
    if stepped:
        draft.change(stepped=gang.stepped.union(stepped), stepping=gang.stepping.union(stepped.values()))
