"""What is noted of an incident while it is open, for its account: levels, verdicts, who took whose place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from fault_contracts.accounts import ATTEMPTS_MAX, NODES_TAKEN_MAX, JudgedFault, NodeTaken
from fault_contracts.recovery_level import RecoveryLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentNotes:
    """Part of the incident's record; see `account`.

    Attributes:
        ranks: of the gang that broke.
        step_s: how long its steps took.
        levels: as planned, an attempt each.
        judged: verdicts of the attempts before the current one.
        taken: places that other nodes have got.
        linked_to: incidents of other jobs with the same cause.
        waits_since: the plan waits for a node or a backoff since then.
        wait_s: waits that are over.
    """

    ranks: int = 0
    step_s: float | None = None
    levels: tuple[RecoveryLevel, ...] = ()
    judged: tuple[JudgedFault, ...] = ()
    taken: tuple[NodeTaken, ...] = ()
    linked_to: tuple[str, ...] = ()
    waits_since: datetime | None = None
    wait_s: float | None = None


def with_level(notes: IncidentNotes, level: RecoveryLevel) -> IncidentNotes:
    """One more attempt got a plan."""
    return replace(notes, levels=(*notes.levels, level)[-ATTEMPTS_MAX:])


def with_judged(notes: IncidentNotes, judged: JudgedFault) -> IncidentNotes:
    """An attempt is over that had this verdict."""
    return replace(notes, judged=(*notes.judged, judged)[-ATTEMPTS_MAX:])


def with_taken(notes: IncidentNotes, taken: tuple[NodeTaken, ...]) -> IncidentNotes:
    """A plan gave places to other nodes; the first ones are told one by one."""
    return replace(notes, taken=(*notes.taken, *taken)[:NODES_TAKEN_MAX])


def waiting(notes: IncidentNotes, now: datetime) -> IncidentNotes:
    """The plan has to wait from now on, if it does not wait already."""
    return notes if notes.waits_since is not None else replace(notes, waits_since=now)


def waited(notes: IncidentNotes, now: datetime) -> IncidentNotes:
    """A plan was made, or the incident ends: no wait goes on."""
    if notes.waits_since is None:
        return notes
    passed_s = max(0.0, (now - notes.waits_since).total_seconds())
    return replace(notes, waits_since=None, wait_s=(notes.wait_s or 0.0) + passed_s)
