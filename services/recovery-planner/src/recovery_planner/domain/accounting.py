"""The accounts of a gang: its books are kept while it is decided, and its incidents and its end say what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from fault_contracts.accounts import ATTEMPTS_MAX, IncidentAccount, JobAccount, NodeTaken
from fault_contracts.faults import Attribution
from fault_contracts.recovery import PhaseTimes
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain import incident_notes
from recovery_planner.domain.books import Books, Usage, Use, accrue, charge
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.incident import Incident, Verdict
from training_topology.topology import RankTable, changed_rows

PLANNED_STOP = "planned_stop"
"""Cause of an incident in which nothing broke: a node gave notice, and the gang was stopped in good time."""


def usage_of(gang: Gang) -> Usage:
    """What the gang's GPUs do now. Ranks of a node that is gone count as its gang's: it has paid for them."""
    nproc = gang.spec.nproc_per_node
    there = [member.node_id for member in gang.members.values() if member.is_there]
    if not gang.table.rows:
        return Usage(use=_use_of(gang), ranks=len(there) * nproc, spare_ranks=0)
    seated = {row.node_id for row in gang.table.rows}
    spares = sum(node_id not in seated for node_id in there)
    return Usage(use=_use_of(gang), ranks=gang.table.world_size, spare_ranks=spares * nproc)


def _use_of(gang: Gang) -> Use:
    match gang.phase:
        case Phase.FORMING:
            return Use.WAITING
        case Phase.STARTING:
            return Use.WAITING if gang.incident is None else Use.DOWN
        case Phase.RUNNING:
            return Use.TRAINING
        case Phase.STOPPING | Phase.DECIDING | Phase.WAITING:
            return Use.DOWN
        case Phase.ENDED:
            return Use.OVER


def keep_books(draft: Draft) -> None:
    """At the end of a step: book the time until now, if from now on it goes elsewhere."""
    before, after = draft.before, draft.gang
    same_use = before.phase is after.phase and (before.incident is None) is (after.incident is None)
    if after.books.at is not None and same_use and before.table is after.table and not draft.staffed:
        return
    draft.change(books=booked(draft))


def booked(draft: Draft) -> Books:
    """The books until now."""
    if draft.before.born_at != draft.gang.born_at:
        return accrue(draft.gang.books, usage_of(draft.gang), draft.now)  # a new run of the job: its own books
    return accrue(draft.gang.books, usage_of(draft.before), draft.now)


def note_open(gang: Gang) -> incident_notes.IncidentNotes:
    """What an incident that opens now has to remember of the gang that broke."""
    step_s = None if gang.pace is None else gang.pace.step_s
    return incident_notes.IncidentNotes(ranks=gang.table.world_size, step_s=step_s)


def step_reached(gang: Gang) -> int | None:
    """The step that this generation has reached: what it did not do, it cannot lose. None: nobody tells steps."""
    if gang.step_now is not None:
        return gang.step_now
    if not gang.stepping:
        return None
    return max(gang.starts[-1].step, 0) if gang.starts else 0


def note_plan(draft: Draft, level: RecoveryLevel, table: RankTable, verdict: Verdict | None) -> None:
    """A plan was made: its level, and who takes whose place."""
    gang = draft.gang
    seated = {row.node_id for row in gang.table.rows}
    held_by = {row.node_rank: row.node_id for row in gang.table.rows}
    taken = [
        NodeTaken(
            node_rank=row.node_rank,
            node_id=row.node_id,
            from_node_id=held_by.get(row.node_rank, ""),
            because=_why_left(gang, held_by.get(row.node_rank, ""), verdict),
        )
        for row in changed_rows(gang.table, table)
        if row.node_id not in seated
    ]
    notes = incident_notes.waited(draft.incident.notes, draft.now)
    notes = incident_notes.with_taken(incident_notes.with_level(notes, level), tuple(taken))
    draft.change_incident(notes=notes)


def _why_left(gang: Gang, node_id: str, verdict: Verdict | None) -> str:
    member = gang.members.get(node_id)
    if not node_id:
        return ""
    if member is None:
        return "its agent is not known any more"
    if member.blamed:
        by_verdict = verdict is not None and verdict.culprit_node_id == node_id
        return f"{member.blamed} is blamed on it" + ("" if by_verdict else ", by an earlier verdict")
    return member.held or f"its agent is {member.standing}"


def incident_account(gang: Gang, incident: Incident, times: PhaseTimes, *, went_on: bool) -> IncidentAccount:
    """The bill of an incident that ends now."""
    notes = incident.notes
    faults = (*notes.judged, incident.verdict.judged) if incident.verdict is not None else notes.judged
    down_s = times.total_s or 0.0
    redone_gpu_s = None
    if times.steps_lost == 0:
        redone_gpu_s = 0.0
    elif times.steps_lost is not None and notes.step_s is not None:
        redone_gpu_s = times.steps_lost * notes.step_s * notes.ranks
    return IncidentAccount(
        levels=notes.levels,
        faults=faults[-ATTEMPTS_MAX:],
        nodes_taken=notes.taken,
        linked_to=notes.linked_to,
        planned=incident.by_notice,
        ranks=notes.ranks,
        ranks_after=gang.table.world_size if went_on else 0,
        down_s=down_s,
        down_gpu_s=down_s * notes.ranks,
        steps_redone=times.steps_lost,
        step_s=notes.step_s,
        redone_gpu_s=redone_gpu_s,
    )


def charge_incident(draft: Draft, account: IncidentAccount, times: PhaseTimes) -> None:
    """Write the incident's bill into the job's books."""
    incident = draft.incident
    verdict = incident.verdict
    attribution = Attribution.UNKNOWN if verdict is None else verdict.attribution
    cause = "" if verdict is None else verdict.cause
    if incident.by_notice:
        attribution, cause = Attribution.PLATFORM, PLANNED_STOP
    books = charge(
        draft.gang.books,
        account,
        attribution=attribution,
        cause=cause,
        attempts=incident.attempt,
        detect_s=times.detect_s or 0.0,
    )
    draft.change(books=books)


def job_account(gang: Gang, books: Books, now: datetime) -> JobAccount:
    """Where the time of a job went until the books end; `now` is the beginning of books that nobody kept."""
    training_s = max(0.0, books.training_s - books.undetected_s)
    training_gpu_s = max(0.0, books.training_gpu_s - books.undetected_gpu_s)
    down_s, down_gpu_s = books.down_s + books.undetected_s, books.down_gpu_s + books.undetected_gpu_s
    return JobAccount(
        since=books.since or now,
        until=books.at or now,
        ranks=gang.table.world_size,
        waiting_s=books.waiting_s,
        training_s=training_s,
        down_s=down_s,
        waiting_gpu_s=books.waiting_gpu_s,
        training_gpu_s=training_gpu_s,
        down_gpu_s=down_gpu_s,
        spare_gpu_s=books.spare_gpu_s,
        redone_s=books.redone_s,
        redone_gpu_s=books.redone_gpu_s,
        incidents=books.incidents,
        unpriced=books.unpriced,
        steps=gang.step_max,
        steps_redone=books.steps_redone,
        best_step_s=None if gang.pace is None else gang.pace.best_s,
        ettr=_share(training_s - books.redone_s, (books.waiting_s, training_s, down_s)),
        goodput=_share(
            training_gpu_s - books.redone_gpu_s,
            (books.waiting_gpu_s, training_gpu_s, down_gpu_s, books.spare_gpu_s),
        ),
        causes=books.causes,
    )


def account_until(gang: Gang, now: datetime) -> JobAccount:
    """The account of a job that goes on, until now."""
    return job_account(gang, accrue(gang.books, usage_of(gang), now), now)


def _share(useful: float, all_of_it: Iterable[float]) -> float | None:
    whole = sum(all_of_it)
    return None if whole <= 0 else min(1.0, max(0.0, useful / whole))


def judged_before(incident: Incident) -> incident_notes.IncidentNotes:
    """The notes when another attempt begins: the verdict of the one before is kept."""
    if incident.verdict is None:
        return incident.notes
    return incident_notes.with_judged(incident.notes, incident.verdict.judged)


def note_wait(draft: Draft) -> None:
    """The plan has to wait."""
    draft.change(incident=replace(draft.incident, notes=incident_notes.waiting(draft.incident.notes, draft.now)))
