"""Stop first: what a fault does to a gang, who has stopped, and who is left behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from fault_contracts.agent import RestartAsked
from fault_contracts.commands import StopMode
from fault_contracts.ids import derived_id
from fault_contracts.payload import Reason
from fault_contracts.recovery import IncidentOpened, NodeLost
from recovery_planner.domain import phases
from recovery_planner.domain.accounting import judged_before, note_open, step_reached
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_machine import Trigger
from recovery_planner.domain.in_process import graver, stop_mode_of
from recovery_planner.domain.incident import Incident
from recovery_planner.domain.journal_entries import tell_attempt
from recovery_planner.domain.member import Standing

DEAD_RANKS_MAX = 1_024
"""Dead ranks named in an incident; beyond that a whole part of the machine is gone and the nodes say it better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of the rank that a fault names; of `others` alone where it names none.

    Attributes:
        dead: its process is gone.
        condemned: its process lives and must not go on.
        others: further ranks that share this fate.
        asked: the level of restart that its script asked for.
        planned: nothing is broken; the stop is the planner's own, for a notice or a change of size.
    """

    dead: bool = True
    condemned: bool = False
    others: tuple[int, ...] = ()
    asked: RestartAsked = RestartAsked.IN_PROCESS
    planned: bool = False


DEAD = Fate()
PLANNED = Fate(dead=False, planned=True)


def fault(
    draft: Draft, reason: Reason, *, node_id: str, rank: int | None, observed_at: datetime, fate: Fate = DEAD
) -> None:
    """A generation is broken: open the incident, or begin its next attempt, and order the stop.

    While the gang is already being stopped, another fault is part of the same attempt.
    """
    gang = draft.gang
    first = () if rank is None else (rank,)
    named = tuple(dict.fromkeys((*first, *fate.others)))[:DEAD_RANKS_MAX]
    dead = named if fate.dead else ()
    condemned = named if fate.condemned else ()
    match gang.phase:
        case Phase.STARTING | Phase.RUNNING:
            if gang.incident is None:
                _open(draft, reason, node_id=node_id, rank=rank, observed_at=observed_at)
            else:
                _next_attempt(draft)
            draft.change_incident(
                by_notice=fate.planned,
                dead_ranks=dead,
                condemned=condemned,
                asked=fate.asked,
                at_barrier=frozenset(),
            )
            mode, why = stop_mode_of(draft.gang, draft.policy)
            draft.explain(f"stop.{mode}", why)
            draft.change_incident(stop_mode=mode)
            draft.change(stopped=frozenset())
            draft.move(Trigger.FAULT, deadline_in_s=stop_limit_s(draft))
            draft.emit_stop(reason)
            if gang.incident is None:
                _announce(draft)
            else:
                tell_attempt(draft, reason, node_id=node_id, rank=rank, observed_at=observed_at)
        case Phase.STOPPING | Phase.DECIDING | Phase.WAITING:
            _join_incident(draft, dead, condemned, observed_at, fate.asked)
        case Phase.FORMING | Phase.ENDED:
            pass


def stop_limit_s(draft: Draft) -> float:
    """How long an agent has to report that its ranks stopped."""
    spec = draft.gang.spec
    barrier_s = spec.barrier_s if draft.incident.stop_mode is StopMode.IN_PROCESS else 0.0
    return spec.stop_grace_s + barrier_s + draft.policy.stop_margin_s


def _open(draft: Draft, reason: Reason, *, node_id: str, rank: int | None, observed_at: datetime) -> None:
    gang = draft.gang
    version = gang.table.topology_version
    incident_id = derived_id(gang.job_id, "incident", gang.born_at.isoformat(), version)
    draft.change(
        incident=Incident(
            incident_id=incident_id,
            attempt=1,
            fault_version=version,
            trigger=reason,
            node_id=node_id,
            rank=rank,
            fault_observed_at=min(observed_at, draft.now),
            opened_at=draft.now,
            mark_at=draft.now,
            step_before=step_reached(gang),
            notes=note_open(gang),
        )
    )


def _next_attempt(draft: Draft) -> None:
    incident = draft.incident
    if not incident.all_started:
        incident = phases.started(incident, draft.now)
    draft.change(
        incident=replace(
            incident,
            attempt=incident.attempt + 1,
            fault_version=draft.gang.table.topology_version,
            verdict=None,
            notes=judged_before(incident),
            mark_at=draft.now,
            stuck=None,
            all_started=False,
        )
    )


def _announce(draft: Draft) -> None:
    incident = draft.incident
    draft.emit(
        IncidentOpened(
            incident_id=incident.incident_id,
            job_id=draft.gang.job_id,
            topology_version=incident.fault_version,
            trigger=incident.trigger,
            node_id=incident.node_id,
            rank=incident.rank,
            planned=incident.by_notice,
            fault_observed_at=incident.fault_observed_at,
            opened_at=incident.opened_at,
        )
    )


def _join_incident(
    draft: Draft, dead: tuple[int, ...], condemned: tuple[int, ...], observed_at: datetime, asked: RestartAsked
) -> None:
    """Another fault of the same attempt. It may have been seen earlier than the one that came first."""
    if observed_at < draft.incident.fault_observed_at:
        draft.change_incident(fault_observed_at=observed_at)
    all_dead = _united(draft.incident.dead_ranks, dead)
    if all_dead != draft.incident.dead_ranks:
        draft.change_incident(dead_ranks=all_dead)
    asked = graver(draft.incident.asked, asked)
    if asked is not draft.incident.asked:
        draft.change_incident(asked=asked)
    both = _united(draft.incident.condemned, condemned)
    if both != draft.incident.condemned:
        draft.change_incident(condemned=both)


def _united(known: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*known, *new)))[:DEAD_RANKS_MAX]


def lose(draft: Draft, node_id: str, standing: Standing, reason: Reason, *, observed_at: datetime) -> None:
    """An agent can no longer be counted on. A node of the gang that still had work takes the gang down with it."""
    gang = draft.gang
    member = gang.members[node_id]
    draft.change_member(replace(member, standing=standing))
    if not gang.is_seated(node_id) or gang.phase in (Phase.FORMING, Phase.ENDED):
        return
    if gang.phase in (Phase.STARTING, Phase.RUNNING) and node_id in gang.completed:
        draft.explain("agent.lost_after_work", f"{node_id} is gone, but all of its ranks had ended with 0")
        return
    fault(draft, reason, node_id=node_id, rank=None, observed_at=observed_at)
    draft.emit(
        NodeLost(
            job_id=gang.job_id,
            node_id=node_id,
            topology_version=gang.table.topology_version,
            incident_id=draft.incident.incident_id,
            reason=reason,
            lost_at=draft.now,
        )
    )


def leave_behind(draft: Draft) -> None:
    """The limit for stopping has passed: whoever has not reported is fenced off and treated as lost."""
    for node_id in draft.gang.awaited:
        reason = draft.explain(
            "stop.deadline",
            f"{node_id} did not report that its ranks stopped within"
            f" {stop_limit_s(draft):g} s; the gang goes on without it",
        )
        lose(draft, node_id, Standing.LOST, reason, observed_at=draft.now)
