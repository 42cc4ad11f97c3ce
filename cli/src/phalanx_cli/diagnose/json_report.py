"""A diagnosis as JSON: the fields of the verdict that goes over the bus, with the evidence lines in place of ids."""

from __future__ import annotations

from typing import Any

from fault_attribution.finding import Finding
from fault_attribution.verdict_text import SpokenReason, verdict_text
from phalanx_cli.diagnose.evidence_lines import EvidenceIndex
from phalanx_cli.diagnose.reading import Reading


def json_report(reading: Reading) -> dict[str, Any]:
    """Exactly: attribution, cause, culprit, confidence, action, reasons, alternatives.

    Reasons with a weight below 0 speak against the verdict. `evidence[].line` counts from 1 and is 0 for what no line
    says by itself.
    """
    judgement = reading.diagnosis.judgement
    index = EvidenceIndex(reading.diagnosis.findings)
    told = verdict_text(judgement)
    return {
        "attribution": judgement.attribution.value,
        "cause": judgement.cause,
        "culprit": judgement.culprit.model_dump(mode="json"),
        "confidence": judgement.confidence,
        "action": judgement.action.value,
        "reasons": [_reason(each, index) for each in (*told.reasons, *told.against)],
        "alternatives": [
            {
                "attribution": each.attribution.value,
                "cause": each.cause,
                "confidence": each.confidence,
                "action": each.action.value,
                "why": each.why,
            }
            for each in told.alternatives
        ],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding, for --list-findings."""
    return {
        "kind": finding.kind,
        "role": finding.role.value,
        "source": finding.source.value,
        "node": finding.node or None,
        "rank": finding.rank,
        "device": finding.device or None,
        "process": finding.process or None,
        "at_s": finding.at_s,
        "captures": dict(finding.captures),
        "count": finding.count,
        "rule_id": finding.rule_id,
        "file": finding.stream,
        "line": finding.number,
        "text": finding.text,
    }


def _reason(reason: SpokenReason, index: EvidenceIndex) -> dict[str, Any]:
    return {
        "rule_id": reason.rule_id,
        "sentence": reason.sentence,
        "weight": reason.weight,
        "evidence": [
            {"file": each.file, "line": each.number, "text": each.text, "finding": each.kind}
            for each in index.rows(reason.findings)
        ],
    }
