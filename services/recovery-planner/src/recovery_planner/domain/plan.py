"""From a stopped gang and its verdict to the next generation, to waiting, or to the end of the job."""

from __future__ import annotations

from fault_contracts.agent import RestartAsked
from fault_contracts.faults import Action, Attribution
from fault_contracts.payload import Reason
from fault_contracts.recovery import GangFormed, JobOutcome, RecoveryPlanned
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain import phases
from recovery_planner.domain.accounting import note_plan
from recovery_planner.domain.budget import budget_at
from recovery_planner.domain.checkpoint import ChosenCheckpoint
from recovery_planner.domain.culprit import place_without_culprits
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.ending import end_job
from recovery_planner.domain.escalation import Answer
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_machine import Trigger
from recovery_planner.domain.in_process import granularity, replaced_ranks
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.journal_entries import tell_no_node
from recovery_planner.domain.launch import base_of, launch
from recovery_planner.domain.member import Standing
from recovery_planner.domain.node_fitness import hold_back_all
from recovery_planner.domain.placement import Placement
from recovery_planner.domain.policy_answer import (
    answer_of,
    capacity_wait_s,
    note_restart,
    start_deadline_s,
    waits_out,
)
from recovery_planner.domain.preemption import leave_out
from recovery_planner.domain.rank_assignment import as_assignments, first_table, next_table
from recovery_planner.domain.step_back import checkpoint_for, reconsider
from recovery_planner.domain.verdict import verdict_to_act_on
from recovery_planner.domain.withheld import observes, withhold
from training_topology.topology import RankTable, changed_rows

REASONS_MAX = 32
"""Reasons in one plan; more than that explain nothing to anybody."""


def form(draft: Draft) -> None:
    """Start the first generation as soon as enough agents are there."""
    gang = draft.gang
    present = [m for m in gang.members.values() if m.standing is Standing.PRESENT and m.idle]
    table = first_table(
        present,
        nnodes=gang.spec.nnodes,
        nproc=gang.spec.nproc_per_node,
        topology_version=gang.table.topology_version + 1,
    )
    if table is None:
        return
    seated = {row.node_id for row in table.rows}
    spares = tuple(m.node_id for m in sorted(present, key=lambda m: m.arrival) if m.node_id not in seated)
    draft.explain("gang.formed", f"{len(present)} agents are there for {gang.spec.nnodes} nodes")
    # One writer or a shared folder: what the node of rank 0 sees is what everybody can read.
    found = gang.members[table.rows[0].node_id].checkpoint_found
    none = ChosenCheckpoint(ref=None, sentence="the first start has no checkpoint")
    if found is not None:
        sentence = f"step {found.step} lay in the watched folder of {table.rows[0].node_id} before the job began"
        none = ChosenCheckpoint(ref=found, sentence=sentence)
        draft.explain("plan.checkpoint_found", sentence)
        draft.change(checkpoint_found=found)
    draft.move(Trigger.FORMED, deadline_in_s=start_deadline_s(draft))
    launch(draft, table, base=RankTable(topology_version=0), chosen=none, level=RecoveryLevel.PROCESS)
    draft.emit(
        GangFormed(
            job_id=gang.job_id,
            topology_version=table.topology_version,
            nodes=tuple(row.node_id for row in table.rows),
            spares=spares,
            world_size=table.world_size,
            formed_at=draft.now,
        )
    )


def plan(draft: Draft) -> None:
    """Decide what follows the stop. Called again whenever something changed while the gang waits for a node."""
    gang = draft.gang
    verdict = _verdict_in_force(draft)
    decided = reconsider(draft, verdict, answer_of(draft, verdict))
    if decided.outcome is not None:
        _give_up(draft, decided, decided.outcome, verdict)
        return
    if waits_out(draft, decided):
        return
    budget = budget_at(gang.spec, gang.restarts, draft.now)
    charge = 0 if draft.incident.by_notice else 1
    if budget.left < charge:
        reason = draft.explain("plan.budget", f"{budget.sentence}; the last fault: {draft.incident.trigger.sentence}")
        end_job(draft, JobOutcome.FAILED_BUDGET, reason, summary=verdict.summary if verdict else "")
        return
    leave_out(draft)
    hold_back_all(draft)
    placement = place_without_culprits(draft, verdict)
    if placement.unfilled:
        if gang.phase is Phase.DECIDING:
            draft.reasons += placement.reasons
            draft.move(Trigger.NO_CAPACITY, deadline_in_s=capacity_wait_s(draft))
            tell_no_node(draft, placement)
        return
    draft.change(restarts=(*budget.restarts, *[draft.now] * charge), restart_count=gang.restart_count + 1)
    for rule_id, sentence in decided.notes:
        draft.explain(rule_id, sentence)
    _restart(draft, placement, verdict, least=decided.level, restarts_left=budget.left - charge)


def _verdict_in_force(draft: Draft) -> Verdict | None:
    """The verdict, unless the job only observes: then it is on record and costs neither the job nor a node."""
    verdict = verdict_to_act_on(draft)
    if verdict is None or not observes(draft.gang):
        return verdict
    if verdict.action is not Action.RESTART_PROCESS:
        said = draft.explain("observe.verdict", f"{verdict.cause} asks for {verdict.action}; the job only observes")
        withhold(
            draft, str(verdict.action), said, node_id=verdict.culprit_node_id, fault_id=verdict.fault_id,
            cause=verdict.cause,
        )  # fmt: skip
    return None


def _give_up(draft: Draft, decided: Answer, outcome: JobOutcome, verdict: Verdict | None) -> None:
    """The policy ends the job; where the verdict alone says so, its own reason is the best one."""
    sentence = decided.sentence
    evidence: tuple[str, ...] = ()
    if verdict is not None:
        evidence = (verdict.fault_id,)
        sentence = f"{decided.sentence}; the last fault: {verdict.cause}: {verdict.reasons[0].sentence}"
        if decided.rule_id == "plan.no_retry":
            sentence = f"{verdict.cause}: {verdict.reasons[0].sentence}"
    reason = draft.explain(decided.rule_id, sentence, *evidence)
    end_job(draft, outcome, reason, summary=verdict.summary if verdict else "")


def _restart(
    draft: Draft, placement: Placement, verdict: Verdict | None, *, least: RecoveryLevel, restarts_left: int
) -> None:
    gang = draft.gang
    incident = draft.incident
    table = next_table(gang.table, gang.members, placement.moves)
    moves = changed_rows(gang.table, table)
    draft.reasons += placement.reasons
    chosen = checkpoint_for(draft, verdict)
    if verdict is None and not incident.by_notice:
        draft.explain("plan.no_verdict", "no verdict came in time; the cause is unknown and the gang is started again")
    level, replaced = _level(draft, least, table)
    note_restart(draft, level, verdict)
    note_plan(draft, level, table, verdict)
    incident = draft.incident
    draft.change(incident=phases.planned(incident, draft.now))
    if level is RecoveryLevel.IN_PROCESS:
        draft.change_incident(in_process_attempts=incident.in_process_attempts + 1)
    draft.move(Trigger.PLANNED, deadline_in_s=start_deadline_s(draft))
    launch(draft, table, base=base_of(gang, table), chosen=chosen, level=level, replaced=replaced)
    moved = {rank for row in moves for rank in table.ranks_of(row.node_id)}
    gone = {*incident.dead_ranks, *incident.condemned, *moved} if replaced is None else set(replaced)
    why: list[Reason] = [*(verdict.reasons[:1] if verdict else ()), *draft.reasons]
    draft.emit(
        RecoveryPlanned(
            incident_id=incident.incident_id,
            job_id=gang.job_id,
            attempt=incident.attempt,
            level=level,
            topology_version=table.topology_version,
            fault_id=verdict.fault_id if verdict else "",
            attribution=verdict.attribution if verdict else Attribution.UNKNOWN,
            cause=verdict.cause if verdict else "",
            ranks_replaced=tuple(sorted(gone)),
            granularity=granularity(table, replaced),
            moves=as_assignments(moves),
            checkpoint_step=chosen.step,
            checkpoint_stepped_over=chosen.stepped_over,
            restarts_left=restarts_left,
            reasons=tuple(why[:REASONS_MAX]),
            verdict=verdict.judged if verdict else None,
            planned_at=draft.now,
        )
    )


def _level(draft: Draft, least: RecoveryLevel, table: RankTable) -> tuple[RecoveryLevel, tuple[int, ...] | None]:
    """The smallest restart that works, and the ranks that get a new process (None: all)."""
    if draft.incident.asked is RestartAsked.JOB:
        draft.explain("plan.asked", "the script asked for a restart of level job")
    if least is not RecoveryLevel.IN_PROCESS:
        return least, None
    replaced = replaced_ranks(draft.gang, table)
    if replaced is None:
        return RecoveryLevel.PROCESS, None
    word = granularity(table, replaced)
    survivors = table.world_size - len(replaced)
    draft.explain("plan.in_process", f"{survivors} of {table.world_size} ranks go on in their processes; new: {word}")
    return RecoveryLevel.IN_PROCESS, replaced
