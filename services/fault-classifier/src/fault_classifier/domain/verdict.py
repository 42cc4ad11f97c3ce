"""An attribution in the words of FaultClassified: reasons, what speaks against it, and one paragraph for a person."""

from __future__ import annotations

from datetime import datetime

from fault_classifier.domain.attribution import Attributed, Finding
from fault_classifier.domain.evidence import DeviceFault, Exit, Faulted, Generation, LostNode
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.ids import derived_id
from fault_contracts.payload import Reason

REASONS_MAX = 32
OTHER_CAUSE_FACTOR = 0.8
"""Applied once when evidence of another cause is there as well."""

_WHOSE = {
    Attribution.HARDWARE: "the hardware's",
    Attribution.DRIVER: "the driver's",
    Attribution.PLATFORM: "the platform's, not the job's",
    Attribution.USER: "the job's own",
    Attribution.UNKNOWN: "not known",
}
_TO_DO = {
    Action.RESTART_PROCESS: "restart the ranks",
    Action.RESTART_JOB: "restart the job",
    Action.RESET_GPU: "reset the GPU",
    Action.REBOOT_NODE: "reboot the node",
    Action.REPLACE_NODE: "replace the node",
    Action.DONT_RETRY_NOTIFY_USER: "do not retry, tell the user",
    Action.WAIT_OR_IGNORE: "wait",
}


def write_verdict(
    attributed: Attributed, generation: Generation, job_id: str, *, supersedes: FaultClassified | None, now: datetime
) -> FaultClassified:
    """The message. Its id follows from the job, the generation, the root cause and the number of the revision."""
    root = attributed.root
    rule = root.rule
    against = _against(attributed)
    other_causes = any(each.rule.cause != rule.cause for each in attributed.others)
    confidence = rule.confidence * root.match.confidence_factor * (OTHER_CAUSE_FACTOR if other_causes else 1.0)
    anchor = _evidence_id(root) or generation.incident_id or "nothing"
    return FaultClassified(
        fault_id=derived_id(
            job_id, "fault", generation.topology_version, rule.rule_id, anchor, generation.revisions, _past(supersedes)
        ),
        job_id=job_id,
        topology_version=generation.topology_version,
        attribution=rule.attribution,
        cause=rule.cause,
        culprit=_culprit(root),
        confidence=round(confidence, 2),
        action=root.action,
        reasons=_reasons(attributed, generation),
        counter_evidence=against,
        summary=_summary(attributed, generation, job_id, against),
        condition_ids=_condition_ids(attributed),
        supersedes=supersedes.fault_id if supersedes is not None else None,
        classified_at=now,
    )


def contradicts(verdict: FaultClassified, attributed: Attributed) -> bool:
    """Whether what is known now says something else than a verdict that is out."""
    rule = attributed.root.rule
    said = (verdict.attribution, verdict.cause, verdict.action)
    return said != (rule.attribution, rule.cause, attributed.root.action)


def _past(verdict: FaultClassified | None) -> str:
    return "" if verdict is None else verdict.fault_id


def _evidence_id(finding: Finding) -> str:
    return "" if finding.piece is None else finding.piece.evidence_id


def _culprit(root: Finding) -> Culprit:
    # Of lost peers nobody knows who broke first: naming the first reporter would blame a victim.
    if root.rule.cause == "communication_error" or root.piece is None:
        return Culprit()
    if isinstance(root.piece, Exit):
        return Culprit(node_id=root.piece.node_id, rank=root.piece.rank, process=f"pid {root.piece.status.pid}")
    if isinstance(root.piece, Faulted):
        if not root.piece.ranks:
            return Culprit()
        process = None if root.piece.pid is None else f"pid {root.piece.pid}"
        return Culprit(node_id=root.piece.node_id, rank=root.piece.ranks[0], process=process)
    if isinstance(root.piece, DeviceFault):
        fault = root.piece
        return Culprit(node_id=fault.node_id, gpu_uuid=fault.gpu_uuid or None, process=fault.process or None)
    return Culprit(node_id=root.piece.node_id)


def _reasons(attributed: Attributed, generation: Generation) -> tuple[Reason, ...]:
    root = attributed.root
    reasons = [_reason(root)]
    reasons += [_reason(each) for each in attributed.others if each.rule.cause == root.rule.cause]
    victims = [each for each in attributed.victims if each is not root.piece]
    if victims or generation.exits_dropped:
        count = len(victims) + generation.exits_dropped
        shown = ", ".join(str(each.rank) for each in victims[:8])
        reasons.append(
            Reason(
                rule_id="victims",
                sentence=f"{count} other deaths are consequences (ranks {shown}{', ...' if count > 8 else ''})",
                evidence_ids=tuple(each.evidence_id for each in victims)[:64],
            )
        )
    return tuple(reasons[:REASONS_MAX])


def _against(attributed: Attributed) -> tuple[Reason, ...]:
    root = attributed.root
    doubts = [
        Reason(rule_id=root.rule.rule_id, sentence=doubt, evidence_ids=root.match.evidence_ids)
        for doubt in root.match.doubts
    ]
    others = [_reason(each) for each in attributed.others if each.rule.cause != root.rule.cause]
    return tuple([*doubts, *others][:REASONS_MAX])


def _reason(finding: Finding) -> Reason:
    return Reason(
        rule_id=finding.rule.rule_id,
        sentence=finding.match.sentence[:2_048],
        evidence_ids=finding.match.evidence_ids[:64],
    )


def _summary(attributed: Attributed, generation: Generation, job_id: str, against: tuple[Reason, ...]) -> str:
    root = attributed.root
    sentences = [
        f"Job {job_id}, generation {generation.topology_version}: {root.match.sentence}",
        f"The fault is {_WHOSE[root.rule.attribution]} ({root.rule.cause}); what to do: {_TO_DO[root.action]}",
    ]
    victims = len([each for each in attributed.victims if each is not root.piece]) + generation.exits_dropped
    if victims:
        sentences.append(f"{victims} other {'rank' if victims == 1 else 'ranks'} died only of that")
    if against:
        sentences.append(f"Against it: {against[0].sentence}")
    return (". ".join(sentences) + f". {root.rule.advice}")[:8_192]


def _condition_ids(attributed: Attributed) -> tuple[str, ...]:
    pieces = [attributed.root.piece, *(each.piece for each in attributed.others), *attributed.victims]
    ids = [piece.evidence_id for piece in pieces if piece is not None and not isinstance(piece, LostNode)]
    return tuple(dict.fromkeys(ids))[:64]
