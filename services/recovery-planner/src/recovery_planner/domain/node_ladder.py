"""Which rung is tried: by what the verdict asks for, by what was tried before, and by how often.

Stories of a node count with decay: after `half_life_s` one counts half. With `strikes_max` of them it is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fault_contracts.cluster_policy import LadderPolicy, ProbationPolicy
from fault_contracts.faults import Action
from fault_contracts.remediation import Rung

ORDER = {rung: place for place, rung in enumerate(Rung)}
_OF_ACTION = {
    Action.RESET_GPU: Rung.RESET_GPU,
    Action.REBOOT_NODE: Rung.REBOOT_NODE,
    Action.REPLACE_NODE: Rung.REPLACE_NODE,
}


def rung_of(action: Action) -> Rung | None:
    """The rung that an action asks for; None: it asks nothing of the node."""
    return _OF_ACTION.get(action)


def at_or_above(rung: Rung, rungs: Sequence[Rung]) -> Rung | None:
    """The lowest allowed rung that does as much; None: there is none."""
    return next((each for each in rungs if ORDER[each] >= ORDER[rung]), None)


def above(rung: Rung, rungs: Sequence[Rung]) -> Rung | None:
    """The next allowed rung; None: the ladder ends."""
    return next((each for each in rungs if ORDER[each] > ORDER[rung]), None)


def first_rung(
    asked: Rung, ladder: LadderPolicy, *, before: Rung | None, strikes: float, device_known: bool
) -> tuple[Rung | None, str]:
    """Where a story begins, and why.

    Args:
        asked: by the verdict.
        ladder: what is allowed.
        before: the rung that brought it back from its last story, while its probation runs; None: no such.
        strikes: stories that count now, this one included.
        device_known: a reset needs to know which GPU.

    Returns:
        The rung, or None where the ladder has none for it; and one sentence.
    """
    if strikes >= ladder.strikes_max:
        rung = at_or_above(Rung.REPLACE_NODE, ladder.rungs)
        return rung, f"{strikes:.1f} stories count, and {ladder.strikes_max:g} are enough to replace it"
    least, why = asked, f"the verdict asks for {asked}"
    if before is not None:
        up = above(before, ladder.rungs)
        if up is None:
            return None, f"it failed on probation after {before}, and the ladder ends there"
        if ORDER[up] > ORDER[least]:
            least, why = up, f"it failed on probation after {before}"
    if least is Rung.RESET_GPU and not device_known:
        least, why = Rung.REBOOT_NODE, "a GPU should be reset, and which one is not known"
    rung = at_or_above(least, ladder.rungs)
    if rung is not None and rung is not least:
        why = f"{why}; this cluster's ladder has no {least}"
    return rung, why if rung is not None else f"{why}, and this cluster's ladder has nothing like it"


def score_at(score: float, scored_at: datetime | None, now: datetime, probation: ProbationPolicy) -> float:
    """Stories as they count now."""
    if scored_at is None:
        return 0.0
    age_s = max(0.0, (now - scored_at).total_seconds())
    return float(score * 0.5 ** (age_s / probation.half_life_s))


def probation_s(strikes: float, probation: ProbationPolicy) -> float:
    """How long a node with so many stories is watched: longer with each that still counts."""
    return probation.length_s * min(max(strikes, 1.0), probation.factor_max)


def limit_s(rung: Rung, ladder: LadderPolicy) -> float:
    """How long a rung may take on the machine itself."""
    return ladder.reset_gpu_s if rung is Rung.RESET_GPU else ladder.reboot_node_s
