"""The engine in one place: lines in, judgement out. Live and offline callers share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fault_attribution.cause_rule import CauseBook
from fault_attribution.derive import complete
from fault_attribution.evidence_line import EvidenceLine
from fault_attribution.finding import Finding
from fault_attribution.judge import JudgePolicy, judge
from fault_attribution.judgement import Judgement
from fault_attribution.loading.rule_files import RuleSet
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_attribution.matching.stream_scan import read_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A judgement with all findings that it was made from."""

    findings: tuple[Finding, ...]
    judgement: Judgement


class Engine:
    """Matcher, derivations and cause rules of one rule set."""

    def __init__(self, rules: RuleSet, policy: JudgePolicy | None = None) -> None:
        self._matcher = SignatureMatcher(rules.signatures)
        self._causes: CauseBook = rules.causes
        self._policy = policy or JudgePolicy()

    @property
    def matcher(self) -> SignatureMatcher:
        """For callers that read lines themselves."""
        return self._matcher

    def diagnose(self, lines: Iterable[EvidenceLine], more: Iterable[Finding] = ()) -> Diagnosis:
        """Judge lines, and findings that were made elsewhere."""
        return self.conclude([*read_lines(self._matcher, lines), *more])

    def conclude(self, findings: Iterable[Finding]) -> Diagnosis:
        """Judge findings."""
        known = complete(findings)
        return Diagnosis(findings=known, judgement=judge(known, self._causes, self._policy))
