"""A verdict whose cause is shared: said once for each incident, and then it costs no node."""

from __future__ import annotations

from dataclasses import replace

from fault_contracts.faults import Action
from fault_contracts.recovery import CauseLinked
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.shared_causes import Link, Sighting, family_of, linked

NODE_ACTIONS = frozenset({Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE})
LINKED_MAX = 64
"""Jobs, nodes and incidents named in one entry; the sentence counts all."""


def sighting_of(gang: Gang, verdict: Verdict) -> Sighting | None:
    """What other jobs may know of this verdict; None: its cause is nobody else's."""
    family = family_of(verdict.cause, verdict.attribution, costs_node=verdict.action in NODE_ACTIONS)
    incident = gang.incident
    if family is None or incident is None:
        return None
    node_id = verdict.culprit_node_id or incident.node_id
    member = gang.members.get(node_id)
    return Sighting(
        at=incident.opened_at,
        node_id=node_id,
        family=family,
        cause=verdict.cause,
        evidence_id=verdict.fault_id,
        job_id=gang.job_id,
        incident_id=incident.incident_id,
        labels=() if member is None else tuple(sorted(member.labels.items())),
    )


def link_of(draft: Draft, verdict: Verdict) -> Link | None:
    """Whether others have the cause of this verdict; the first time it is known, it is told."""
    own = sighting_of(draft.gang, verdict)
    found = None if own is None else linked(own, draft.sightings)
    if own is None or found is None:
        return None
    incident = draft.incident
    others = tuple(each for each in found.incidents if each != incident.incident_id)
    if incident.notes.linked_to:
        return found
    reason = draft.explain("cause.linked", found.sentence, *found.evidence_ids[:LINKED_MAX])
    # Its own name where no other incident is known: the nodes alone say it, and it is not told again.
    named = (others or (incident.incident_id,))[:LINKED_MAX]
    draft.change_incident(notes=replace(incident.notes, linked_to=named))
    draft.emit(
        CauseLinked(
            incident_id=incident.incident_id,
            job_id=draft.gang.job_id,
            topology_version=incident.fault_version,
            family=str(found.family),
            attribution=verdict.attribution,
            cause=verdict.cause,
            place=found.place,
            jobs=found.jobs[:LINKED_MAX],
            nodes=found.nodes[:LINKED_MAX],
            incidents=found.incidents[:LINKED_MAX],
            reason=reason,
            linked_at=draft.now,
        )
    )
    return found


def spare_the_node(draft: Draft, verdict: Verdict | None) -> Verdict | None:
    """The verdict to act on: where its cause is shared, the job is started again and its node keeps its place."""
    if verdict is None or link_of(draft, verdict) is None:
        return verdict
    return replace(verdict, action=Action.RESTART_JOB) if verdict.action in NODE_ACTIONS else verdict
