"""The start of a generation: the table becomes the gang's, and its agents are ordered to start it."""

from __future__ import annotations

from dataclasses import replace

from fault_contracts.commands import StartWorkers
from fault_contracts.payload import Reason
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.checkpoint import ChosenCheckpoint, note_start
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Gang, GenerationStart
from recovery_planner.domain.incident import Incident
from recovery_planner.domain.member import Standing
from recovery_planner.domain.rank_assignment import as_assignments
from recovery_planner.domain.step_back import next_trial
from training_topology.topology import RankTable, changed_rows


def launch(
    draft: Draft,
    table: RankTable,
    *,
    base: RankTable,
    chosen: ChosenCheckpoint,
    level: RecoveryLevel,
    replaced: tuple[int, ...] | None = None,
) -> None:
    """Make `table` the generation of the gang and order its start."""
    gang = draft.gang
    draft.change(
        table=table,
        preemption=None,
        stopped=frozenset(),
        started=frozenset(),
        completed=frozenset(),
        stepped=frozenset(),
        step_now=None,
        trial=next_trial(gang, draft.now),
        starts=note_start(
            gang.starts,
            GenerationStart(topology_version=table.topology_version, step=-1 if chosen.step is None else chosen.step),
        ),
    )
    _remember_table(draft, replaced)
    draft.emit(_start_command(draft, base=base, chosen=chosen, level=level, replaced=replaced))


def _remember_table(draft: Draft, replaced: tuple[int, ...] | None) -> None:
    """Every agent that is present hears the start, whether it has a place or not, and holds its table from then on.

    A node whose ranks are all new has to announce its blocks again; one survivor speaks for the script of its node.
    """
    table = draft.gang.table
    version = table.topology_version
    new = None if replaced is None else set(replaced)
    kept = set() if new is None else {row.node_id for row in table.rows if not set(table.ranks_of(row.node_id)) <= new}
    members = {
        node_id: replace(member, table_version=version, in_process=member.in_process and node_id in kept)
        if member.standing is Standing.PRESENT
        else member
        for node_id, member in draft.gang.members.items()
    }
    draft.change(members=members)


def base_of(gang: Gang, table: RankTable) -> RankTable:
    """What the start is a change to: the current table, or nothing when a node of the new one may not hold it."""
    version = gang.table.topology_version
    if all(gang.members[row.node_id].table_version == version for row in table.rows):
        return gang.table
    return RankTable(topology_version=0)


def _start_command(
    draft: Draft,
    *,
    base: RankTable,
    chosen: ChosenCheckpoint,
    level: RecoveryLevel,
    replaced: tuple[int, ...] | None,
) -> StartWorkers:
    """The order: only the rows that changed since `base`, and the store address that node_rank 0 keeps reserved."""
    gang = draft.gang
    first = gang.members[gang.table.rows[0].node_id]
    return StartWorkers(
        job_id=gang.job_id,
        fence=draft.fence(),
        operation_id=draft.operation_id("start_workers"),
        expires_at=draft.expires_at(),
        base_version=base.topology_version,
        rows=as_assignments(changed_rows(base, gang.table)),
        nnodes=gang.table.nnodes,
        world_size=gang.table.world_size,
        master_addr=first.address,
        master_port=first.master_port,
        checkpoint=chosen.ref,
        restart_count=gang.restart_count,
        level=level,
        ranks_replaced=replaced,
        reason=None if gang.incident is None else _why(gang.incident, chosen),
    )


def _why(incident: Incident, chosen: ChosenCheckpoint) -> Reason:
    """What broke the generation before, in one sentence for the person at the terminal."""
    verdict = incident.verdict
    if incident.by_notice:
        return incident.trigger
    over = "" if chosen.stepped_over is None else f"the checkpoint of step {chosen.stepped_over} is stepped over; "
    if verdict is None:
        sentence = f"{over}unknown, no verdict came in time: {incident.trigger.sentence}"
        return Reason(rule_id="plan.no_verdict", sentence=sentence[:2_048])
    first = verdict.reasons[0]
    sentence = f"{over}{verdict.attribution}, {verdict.cause}: {first.sentence}"[:2_048]
    return Reason(rule_id=first.rule_id, sentence=sentence, evidence_ids=(verdict.fault_id,))
