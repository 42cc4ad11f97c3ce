"""When a rule about ranks that live and cannot go on holds: stopped, blocked, hung, or told by a log rule.

Their agent has looked at them already and says which check found it; here it is decided what that means for the job.
"""

from __future__ import annotations

from collections.abc import Callable

from fault_classifier.domain.evidence import Faulted
from fault_classifier.domain.recurrence import earlier_same_log_rule, faults_without_progress
from fault_classifier.domain.rule import Case, Match
from fault_contracts.health import RankCheck

RANKS_SHOWN_MAX = 8

FaultedCondition = Callable[[Faulted, Case], Match | None]


def of_check(check: RankCheck, condition: FaultedCondition | None = None) -> Callable[[Case], Match | None]:
    """A rule's condition from one that reads faults of one check; without a condition the fault itself is it."""
    reads = condition or _as_told

    def holds(case: Case) -> Match | None:
        if not isinstance(case.piece, Faulted) or case.piece.check != check:
            return None
        return reads(case.piece, case)

    return holds


def repeated_log_rule(faulted: Faulted, case: Case) -> Match | None:
    """The same log rule at the same step again; or often enough without progress where steps are unknown."""
    earlier = earlier_same_log_rule(faulted, case.job, case.generation.topology_version)
    same_step = [each for each in earlier if faulted.step is not None and each.step == faulted.step]
    if same_step:
        sentence = (
            f"log rule {faulted.rule_id} held after the same step ({faulted.step}) before: the job was restarted and "
            f"came to the same lines ({faulted.sentence})"
        )
        return Match(sentence=sentence[:2_000], evidence_ids=_ids(faulted, *same_step))
    still = faults_without_progress(faulted, earlier)
    if len(still) + 1 < case.policy.occurrences_min:
        return None
    sentence = (
        f"log rule {faulted.rule_id} held in {len(still) + 1} generations and no checkpoint was gained in between; "
        f"steps are not known ({faulted.sentence})"
    )
    return Match(
        sentence=sentence[:2_000],
        evidence_ids=_ids(faulted, *still),
        confidence_factor=0.9,
        doubts=("the ranks report no steps, so that it is not proved that the job stood still",),
    )


def _as_told(faulted: Faulted, _: Case) -> Match:
    sentence = f"{_who(faulted)}: {faulted.sentence} (rule {faulted.rule_id})"
    return Match(sentence=sentence[:2_000], evidence_ids=(faulted.evidence_id,))


def _who(faulted: Faulted) -> str:
    if not faulted.ranks:
        return f"ranks on {faulted.node_id}, of which none stands out"
    shown = ", ".join(str(rank) for rank in faulted.ranks[:RANKS_SHOWN_MAX])
    more = ", ..." if len(faulted.ranks) > RANKS_SHOWN_MAX else ""
    return f"{'ranks' if len(faulted.ranks) > 1 else 'rank'} {shown}{more} on {faulted.node_id}"


def _ids(*faults: Faulted) -> tuple[str, ...]:
    return tuple(each.evidence_id for each in faults)[:64]
