"""A member is held back because of its node, goes on until the next stop, or is fit again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.member import Member, Standing
from recovery_planner.domain.node_fit import ADMITTED, NodeFit
from recovery_planner.domain.withheld import observes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStandingSeen:
    """What is known of a node's standing has changed; the fit itself comes beside the event, as the history does."""

    node_id: str


def weigh(draft: Draft, node_id: str) -> None:
    """Bring a member to what is known of its node: held back, in doubt, or fit again."""
    member = draft.gang.members.get(node_id)
    if member is None or draft.gang.phase is Phase.ENDED:
        return
    fit = draft.fits.get(node_id, NodeFit(held=member.held, doubt=member.doubt))
    if observes(draft.gang) and not fit.tended:
        if not member.by_fitness:
            return
        # A node that is being repaired is no place for this job either; once that is over, it weighs nothing again.
        fit = ADMITTED
    if fit.tended and member.standing is Standing.CONDEMNED and not member.by_fitness:
        member = replace(member, by_fitness=True)
        draft.change_member(member)
        draft.explain("node.tended", f"{node_id} is repaired; when it works again this job may use it again")
    # What this job saw fail itself holds until it is told to be over, whatever an older standing says.
    held = member.held if member.faults else fit.held
    if held != member.held or fit.doubt != member.doubt:
        member = replace(member, held=held, doubt=fit.doubt)
        draft.change_member(member)
    if held and member.standing is Standing.PRESENT:
        hold_back(draft, member)
    elif not held and not member.faults and member.standing is Standing.CONDEMNED and member.by_fitness:
        fit_again = replace(member, standing=Standing.PRESENT, by_fitness=False, table_version=0, blamed="")
        draft.change_member(fit_again)
        draft.explain("node.fit_again", f"{node_id} may be used again: nothing is held against it any more")


def hold_back(draft: Draft, member: Member) -> None:
    """Take a member that is there out of use; one whose ranks run goes on until the next stop."""
    node_id = member.node_id
    if draft.gang.is_live and draft.gang.is_seated(node_id):
        draft.explain("node.held_later", f"{node_id} gives its place up at the next stop: {member.held}")
        return
    draft.change_member(replace(member, standing=Standing.CONDEMNED, by_fitness=True))
    draft.explain("node.held_back", held_sentence(member))


def hold_back_all(draft: Draft) -> None:
    """At a plan: whoever is held gets no place in it."""
    for member in list(draft.gang.members.values()):
        if member.held and member.standing is Standing.PRESENT:
            hold_back(draft, member)


def held_sentence(member: Member) -> str:
    """What the agent is told."""
    return f"{member.node_id} is held back: {member.held}"


def clean_first(members: Iterable[Member]) -> list[Member]:
    """In order of arrival, those with an open problem last."""
    return sorted(members, key=lambda member: (bool(member.doubt), member.arrival))
