"""Whether more evidence can change a verdict at once, or is more of what it rests on.

A broken gang of a thousand ranks tells of a thousand victims. Weighing all rules for each would cost a core for
seconds and say nothing new: the verdict changes with kinds of facts, and is given once more when it is quiet.
"""

from __future__ import annotations

from fault_classifier.domain.evidence import Exit, Generation
from fault_classifier.domain.victim import victim_reason

KINDS_MAX = 256
_WEIGHTY = frozenset({"cause", "symptom"})
"""Roles of lines that can turn a verdict by themselves. What victims and settings tell only shades it."""


def kinds_of(generation: Generation) -> tuple[str, ...]:
    """The kinds of lines and surroundings in a generation, as far as a verdict can turn on them.

    Deaths are looked at one by one (see `is_news`): one more victim is no other kind of fact.
    """
    found: set[str] = {f"row {row.kind}" for row in generation.rows if row.role in _WEIGHTY}
    found |= {f"around {each.kind} {each.node_id}" for each in generation.surroundings}
    return tuple(sorted(found))[:KINDS_MAX]


def is_news(old: Generation, grown: Generation) -> bool:
    """Whether `grown` holds what the verdict on `old` could not weigh."""
    if (old.lost, old.faulted, old.devices, old.notes) != (grown.lost, grown.faulted, grown.devices, grown.notes):
        return True
    if grown.exits and not old.exits:
        return True
    if grown.exits is not old.exits and any(victim_reason(each) is None for each in _new_exits(old, grown)):
        return True
    if grown.rows is old.rows and grown.surroundings is old.surroundings:
        return False  # a victim, or a count
    return not set(kinds_of(grown)) <= set(old.judged)


def _new_exits(old: Generation, grown: Generation) -> list[Exit]:
    known = {each.evidence_id for each in old.exits}
    return [each for each in grown.exits if each.evidence_id not in known]
