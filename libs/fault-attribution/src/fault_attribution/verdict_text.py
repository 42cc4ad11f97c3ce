"""A judgement in words: one paragraph for somebody woken at night, and what speaks for and against it.

The live judge and `phalanx diagnose` both say it this way, so that a verdict reads the same wherever it is met. Texts
hold lines of foreign logs: whoever shows them on a terminal must make them printable first.
"""

from __future__ import annotations

from dataclasses import dataclass

from fault_attribution.finding import Finding
from fault_attribution.judgement import Hypothesis, Judgement, Support
from fault_contracts.faults import Action, Attribution, Culprit

SENTENCE_CHARS_MAX = 1_024
"""Of one reason; two fit into the sentence of a message."""
SUMMARY_CHARS_MAX = 4_096
"""A paragraph; half of what an excerpt of a message may have."""
REASONS_MAX = 32

NO_EVIDENCE = "no_evidence"
"""Cause of a judgement on evidence in which nothing failed, as far as any rule knows."""

_WHOSE = {
    Attribution.HARDWARE: "hardware",
    Attribution.DRIVER: "the driver stack",
    Attribution.PLATFORM: "the platform",
    Attribution.USER: "the job itself",
}
_DO = {
    Action.RESTART_PROCESS: "start the failed process again; no machine needs to be touched",
    Action.RESTART_JOB: "start the job again, from its last checkpoint; no machine needs to be touched",
    Action.RESET_GPU: "drain the GPU and reset it before it works again",
    Action.REBOOT_NODE: "drain the machine and reboot it before it works again",
    Action.REPLACE_NODE: "take the machine out of service and have it repaired; run the job elsewhere",
    Action.DONT_RETRY_NOTIFY_USER: "do not start it again as it is: it would fail again. Tell the owner of the job",
    Action.WAIT_OR_IGNORE: "nothing: it is harmless, or it passes by itself",
}
_STRENGTH = ((5.0, "decisive"), (3.0, "strong"), (1.5, "fair"), (0.0, "weak"))
"""Natural logarithms of likelihood ratios: 5 is 150 to 1, 3 is 20 to 1, 1.5 is 4.5 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenReason:
    """One reason.

    Attributes:
        weight: natural logarithm of the likelihood ratio; below 0 it speaks against.
    """

    rule_id: str
    sentence: str
    weight: float
    findings: tuple[Finding, ...]

    @property
    def strength(self) -> str:
        """The weight in a word."""
        return next(word for least, word in _STRENGTH if abs(self.weight) >= least)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenAlternative:
    """Another hypothesis, and the best that speaks for it."""

    attribution: Attribution
    cause: str
    confidence: float
    action: Action
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictText:
    """What people read of a judgement.

    Attributes:
        headline: whose fault, the cause and how sure, in one line.
        summary: the paragraph.
        reasons, against: heaviest first; of the best hypothesis.
        alternatives: the others, likeliest first. Without a verdict the best hypothesis is one of them.
        decide: what evidence would change or settle it.
    """

    headline: str
    summary: str
    reasons: tuple[SpokenReason, ...]
    against: tuple[SpokenReason, ...]
    alternatives: tuple[SpokenAlternative, ...]
    decide: tuple[str, ...]


def verdict_text(judgement: Judgement) -> VerdictText:
    """All that there is to say."""
    best = judgement.best
    reasons = () if best is None else best.support
    against = () if best is None else best.against
    others = judgement.hypotheses[1:] if judgement.attribution is not Attribution.UNKNOWN else judgement.hypotheses
    return VerdictText(
        headline=headline(judgement),
        summary=_clipped(_summary(judgement), SUMMARY_CHARS_MAX),
        reasons=_spoken(reasons),
        against=_spoken(against),
        alternatives=tuple(_alternative(each) for each in others),
        decide=judgement.decide,
    )


def headline(judgement: Judgement) -> str:
    """One line."""
    if judgement.attribution is not Attribution.UNKNOWN:
        return f"{judgement.attribution}: {judgement.cause}, {_percent(judgement.confidence)} sure"
    if judgement.cause == NO_EVIDENCE:
        return "no failure found"
    if judgement.best is None:
        return "unknown: something failed that no rule knows"
    return f"unknown: {judgement.cause} is likeliest, {_percent(judgement.best.share)} sure"


def culprit_words(culprit: Culprit, attribution: Attribution) -> str:
    """Rank, process, device and node, as far as they are known; empty when nobody is blamed.

    Where a machine is at fault, the process and the rank that it struck are left out.
    """
    machine = attribution in (Attribution.HARDWARE, Attribution.DRIVER) and bool(culprit.gpu_uuid or culprit.node_id)
    parts = [
        f"rank {culprit.rank}" if culprit.rank is not None and not machine else "",
        culprit.process or "" if not machine else "",
        f"device {culprit.gpu_uuid}" if culprit.gpu_uuid else "",
        f"node {culprit.node_id}" if culprit.node_id else "",
    ]
    return ", ".join(part for part in parts if part)


def action_words(action: Action) -> str:
    """What an action means for a person, as an order."""
    return _DO[action]


def _summary(judgement: Judgement) -> str:
    best = judgement.best
    if best is None:
        return _without_hypothesis(judgement)
    if judgement.attribution is Attribution.UNKNOWN:
        return _undecided(judgement, best)
    blamed = culprit_words(judgement.culprit, judgement.attribution)
    parts = [
        f"The fault is with {_WHOSE[judgement.attribution]} ({_percent(judgement.confidence)} sure):",
        _sentence(best.rule.meaning),
        f"It was {blamed}." if blamed else "",
        _sentence(f"The strongest reason: {_spoken(best.support)[0].sentence}"),
        _sentence(f"What to do: {action_words(judgement.action)}"),
        _sentence(best.rule.advice),
    ]
    if best.against:
        parts.append(_sentence(f"Against it speaks: {_spoken(best.against)[0].sentence}"))
    return " ".join(part for part in parts if part)


def _without_hypothesis(judgement: Judgement) -> str:
    if judgement.cause == NO_EVIDENCE:
        return (
            "No failure was found: no line of what was read says that anything went wrong. If the job did fail, the "
            "evidence is elsewhere: the output of the rank that died first, or the kernel log of its machine."
        )
    return (
        "Something failed, and no rule can say whose fault it was. "
        + _sentence(f"Until somebody knows: {action_words(judgement.action)}")
        + "".join(f" {_sentence(f'It would help to see {each}')}" for each in judgement.decide)
    )


def _undecided(judgement: Judgement, best: Hypothesis) -> str:
    parts = [
        "Whose fault it was cannot be said with enough certainty.",
        _sentence(
            f"The likeliest is {best.rule.cause} ({best.rule.attribution}, {_percent(best.share)}): "
            f"{_spoken(best.support)[0].sentence}"
        ),
    ]
    if len(judgement.hypotheses) > 1:
        other = judgement.hypotheses[1]
        parts.append(
            _sentence(
                f"The next is {other.rule.cause} ({other.rule.attribution}, {_percent(other.share)}): "
                f"{_spoken(other.support)[0].sentence}"
            )
        )
    parts.append(_sentence(f"Until it is known: {action_words(judgement.action)}"))
    parts += [_sentence(f"What would settle it: {each}") for each in judgement.decide]
    return " ".join(parts)


def _alternative(hypothesis: Hypothesis) -> SpokenAlternative:
    return SpokenAlternative(
        attribution=hypothesis.rule.attribution,
        cause=hypothesis.rule.cause,
        confidence=round(hypothesis.share, 2),
        action=hypothesis.action,
        why=_spoken(hypothesis.support)[0].sentence,
    )


def _spoken(supports: tuple[Support, ...]) -> tuple[SpokenReason, ...]:
    ordered = sorted(supports, key=lambda each: -abs(each.score))
    return tuple(
        SpokenReason(
            rule_id=each.rule_id,
            sentence=_clipped(each.sentence, SENTENCE_CHARS_MAX),
            weight=each.score,
            findings=each.findings,
        )
        for each in ordered[:REASONS_MAX]
    )


def _sentence(text: str) -> str:
    """With a full stop and a capital, whatever its author gave it."""
    text = " ".join(text.split())
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
