"""Ranks that live and cannot go on, as findings: stopped, blocked, hung, or told by a log rule.

Their agent has looked at them already and says which check found it; here it is decided what that means for the job.
"""

from __future__ import annotations

from collections.abc import Iterator

from fault_attribution.finding import Finding, Role
from fault_classifier.domain.evidence import Faulted, JobEvidence
from fault_classifier.domain.exit_facts import EVIDENCE_MAX, TEXT_MAX
from fault_classifier.domain.fact_policy import FactPolicy
from fault_classifier.domain.recurrence import earlier_same_log_rule, faults_without_progress
from fault_contracts.health import RankCheck

RANKS_SHOWN_MAX = 8
PLACES = {
    "data_loader": "stack_in_data",
    "checkpoint": "stack_in_checkpoint",
    "evaluation": "stack_in_evaluation",
    "collective": "stack_in_collective",
}
"""Places of stacks, as agents name them (rank_faults.StalledRank.place), in the words of signatures."""


def live_facts(faulted: Faulted, job: JobEvidence, topology_version: int, policy: FactPolicy) -> Iterator[Finding]:
    """What this fault means, and where its suspects stand."""
    check, sentence, captures, because = _told(faulted, job, topology_version, policy)
    yield _finding(faulted, check, sentence, captures, because=because)
    if faulted.place and faulted.ranks:
        # In the words that logs are read into: it is the one that did not come, and there it stood.
        captures = {"place": faulted.place, "check": faulted.check}
        yield _finding(
            faulted, PLACES.get(faulted.place, "stack_in_other"), faulted.sentence, captures, role=Role.CONTEXT
        )
        if faulted.place != "collective":
            yield _finding(faulted, "missing_rank", faulted.sentence, {"how": "stack"}, role=Role.CONTEXT)


def _told(
    faulted: Faulted, job: JobEvidence, topology_version: int, policy: FactPolicy
) -> tuple[str, str, dict[str, str], tuple[Faulted, ...]]:
    captures = {"rule": faulted.rule_id, "ranks": str(len(faulted.ranks))}
    plain = f"{_who(faulted)}: {faulted.sentence} (rule {faulted.rule_id})"
    if faulted.check not in set(RankCheck):
        return "unread_report", f"no rule reads the check {faulted.check}: {plain}", captures, ()
    if faulted.check == RankCheck.LOG_RULE:
        earlier = earlier_same_log_rule(faulted, job, topology_version)
        same_step = tuple(each for each in earlier if faulted.step is not None and each.step == faulted.step)
        if same_step:
            sentence = (
                f"log rule {faulted.rule_id} held after the same step ({faulted.step}) before: the job was restarted "
                f"and came to the same lines ({faulted.sentence})"
            )
            return "repeated_log_rule", sentence, {**captures, "by": "step"}, same_step
        still = faults_without_progress(faulted, earlier)
        if len(still) + 1 >= policy.occurrences_min:
            sentence = (
                f"log rule {faulted.rule_id} held in {len(still) + 1} generations and no checkpoint was gained in "
                f"between; steps are not known ({faulted.sentence})"
            )
            return "repeated_log_rule", sentence, {**captures, "by": "count"}, still
    return faulted.check, plain, captures, ()


def _finding(
    faulted: Faulted,
    kind: str,
    sentence: str,
    captures: dict[str, str],
    *,
    role: Role = Role.CAUSE,
    because: tuple[Faulted, ...] = (),
) -> Finding:
    # Nobody stands out: then no node is named either.
    blamed = bool(faulted.ranks)
    return Finding(
        finding_id=f"{kind}:{faulted.evidence_id}",
        kind=kind,
        role=role,
        node=faulted.node_id if blamed else "",
        rank=faulted.ranks[0] if blamed else None,
        process=str(faulted.pid) if blamed and faulted.pid is not None else "",
        captures=captures,
        text=sentence[:TEXT_MAX],
        rule_id="live.faulted",
        because=tuple(each.evidence_id for each in (faulted, *because))[:EVIDENCE_MAX],
    )


def _who(faulted: Faulted) -> str:
    if not faulted.ranks:
        return f"ranks on {faulted.node_id}, of which none stands out"
    shown = ", ".join(str(rank) for rank in faulted.ranks[:RANKS_SHOWN_MAX])
    more = ", ..." if len(faulted.ranks) > RANKS_SHOWN_MAX else ""
    return f"{'ranks' if len(faulted.ranks) > 1 else 'rank'} {shown}{more} on {faulted.node_id}"
