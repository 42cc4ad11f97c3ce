"""What of a node's standing counts for placement: may it be given ranks, and is it preferred.

Silence is unknown, and unknown is admitted: a cluster without host roles must work. A setting can demand ok.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fault_contracts.hardware import NodeStanding
from fault_contracts.payload import Health

SENTENCE_MAX = 600
"""A reason that is kept in each member's record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFit:
    """What of a node's standing counts here.

    Attributes:
        held: why the node is not given ranks, in words; empty: it may be.
        doubt: a tolerated problem; empty: none. Such a node is taken when no other is free.
        tended: something is done about the node: it is held for every job, and comes back to all of them.
    """

    held: str = ""
    doubt: str = ""
    tended: bool = False


ADMITTED = NodeFit()
Fits = Mapping[str, NodeFit]
"""By node_id. A node that is not in it: nothing new is known, so what its member's record says goes on to hold."""
NOTHING_KNOWN: Fits = {}


def fit_of(standing: NodeStanding | None, *, ok_demanded: bool) -> NodeFit:
    """What a record of the bucket `nodes` means for placement."""
    doubt = "" if standing is None or not standing.doubts else standing.doubts[0].sentence
    fit = Health.UNKNOWN if standing is None else standing.fit
    match fit:
        case Health.OK:
            held = ""
        case Health.BAD:
            reasons = standing.reasons if standing is not None else ()
            held = reasons[0].sentence if reasons else "its standing is bad"
        case Health.UNKNOWN:
            held = "no host role has told its state, and this cluster demands one" if ok_demanded else ""
    return NodeFit(held=held[:SENTENCE_MAX], doubt=doubt[:SENTENCE_MAX])


def both(one: NodeFit, other: NodeFit) -> NodeFit:
    """What holds when two sources speak of a node: the first word of each kind counts."""
    return NodeFit(held=one.held or other.held, doubt=one.doubt or other.doubt, tended=one.tended or other.tended)
