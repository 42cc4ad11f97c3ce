"""A judgement in words."""

import pytest

from fault_attribution.cause_rule import CauseBook, CauseRule, CulpritKind, Weight
from fault_attribution.finding import Finding, Role
from fault_attribution.judge import judge
from fault_attribution.term import parse_term
from fault_attribution.verdict_text import (
    SENTENCE_CHARS_MAX,
    SUMMARY_CHARS_MAX,
    SpokenReason,
    action_words,
    culprit_words,
    verdict_text,
)
from fault_contracts.faults import Action, Attribution, Culprit


def rule(cause: str, see: str, score: float, **more: object) -> CauseRule:
    fields: dict[str, object] = {
        "rule_id": f"user.{cause}",
        "attribution": Attribution.USER,
        "cause": cause,
        "action": Action.DONT_RETRY_NOTIFY_USER,
        "when": (Weight(see=parse_term(see), score=score, say="rank {rank} ran out of memory: {text}"),),
        "meaning": "the program asked for more memory than there is",
        "advice": "make the batch smaller",
        "decide": "the memory of the GPU before the job",
        "near_miss": "-",
        "origin": "-",
        **more,
    }
    return CauseRule(**fields)  # type: ignore[arg-type]


def found(kind: str, text: str = "out of memory", role: Role = Role.CAUSE) -> Finding:
    return Finding(finding_id=f"f-{kind}", kind=kind, role=role, node="n3", rank=5, device="GPU-7", text=text)


def test_a_verdict_names_party_reason_place_and_what_to_do() -> None:
    less = Weight(see=parse_term("other"), score=0.5, say="another process held memory")
    book = CauseBook.of((rule("cuda_oom", "oom", 5, less=(less,)),))
    told = verdict_text(judge([found("oom"), found("other")], book))
    assert told.headline == "user: cuda_oom, 97% sure"
    for part in (
        "The fault is with the job itself",
        "The program asked for more memory than there is.",
        "rank 5, device GPU-7, node n3",
        "The strongest reason: rank 5 ran out of memory: out of memory.",
        "Tell the owner of the job. Make the batch smaller.",
        "Against it speaks: another process held memory.",
    ):
        assert part in told.summary
    assert [each.weight for each in told.reasons] == [5]
    assert [each.weight for each in told.against] == [-0.5]
    assert told.alternatives == ()
    assert told.decide == ("the memory of the GPU before the job",)


def test_nobody_is_blamed_where_the_rule_blames_nobody() -> None:
    book = CauseBook.of((rule("cuda_oom", "oom", 5, culprit=CulpritKind.NOBODY),))
    assert "It was" not in verdict_text(judge([found("oom")], book)).summary


def test_an_unsure_judgement_tells_both_and_what_would_settle_it() -> None:
    other = rule("worn_out", "oom", 2.0, rule_id="hw.worn", attribution=Attribution.HARDWARE, decide="its past")
    told = verdict_text(judge([found("oom")], CauseBook.of((rule("cuda_oom", "oom", 2.0), other))))
    assert told.headline.startswith("unknown: ")
    assert {each.cause for each in told.alternatives} == {"cuda_oom", "worn_out"}
    assert "The likeliest is" in told.summary
    assert "The next is" in told.summary
    assert "What would settle it: the memory of the GPU before the job." in told.summary


def test_no_failure_and_an_unknown_failure_are_two_answers() -> None:
    nothing = verdict_text(judge([found("step", role=Role.PROGRESS)], CauseBook.of(())))
    odd = verdict_text(judge([found("odd", role=Role.UNRECOGNISED)], CauseBook.of(())))
    assert nothing.headline == "no failure found"
    assert "No failure was found" in nothing.summary
    assert odd.headline == "unknown: something failed that no rule knows"
    assert nothing.reasons == odd.reasons == ()


def test_a_foreign_line_cannot_make_the_text_endless_or_many_lines() -> None:
    book = CauseBook.of((rule("cuda_oom", "oom", 5),))
    told = verdict_text(judge([found("oom", "x\n" * 10_000)], book))
    assert len(told.reasons[0].sentence) <= SENTENCE_CHARS_MAX
    assert len(told.summary) <= SUMMARY_CHARS_MAX
    assert "\n" not in told.summary


def test_the_process_that_broken_hardware_struck_is_not_blamed() -> None:
    culprit = Culprit(node_id="n3", rank=5, gpu_uuid="GPU-7", process="pid 4711")
    assert culprit_words(culprit, Attribution.HARDWARE) == "device GPU-7, node n3"
    assert culprit_words(culprit, Attribution.USER) == "rank 5, pid 4711, device GPU-7, node n3"
    assert culprit_words(Culprit(rank=5), Attribution.HARDWARE) == "rank 5"


@pytest.mark.parametrize(
    ("weight", "word"), [(6, "decisive"), (3, "strong"), (-1.5, "fair"), (-0.4, "weak"), (0, "weak")]
)
def test_the_strength_of_a_weight(weight: float, word: str) -> None:
    assert SpokenReason(rule_id="r", sentence="s", weight=weight, findings=()).strength == word


def test_every_action_has_words() -> None:
    assert all(action_words(action) for action in Action)
