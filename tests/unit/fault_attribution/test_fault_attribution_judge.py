"""Weights add up, the best hypothesis wins, and what is not sure is unknown."""

import itertools
from dataclasses import replace

import pytest

from fault_attribution.cause_rule import ActionChoice, CauseBook, CauseRule, CulpritKind, Prior, Weight
from fault_attribution.finding import Finding, Role
from fault_attribution.judge import JudgePolicy, judge
from fault_attribution.signature import RuleState
from fault_attribution.term import parse_term
from fault_contracts.faults import Action, Attribution


def weights(*pairs: tuple[str, float]) -> tuple[Weight, ...]:
    return tuple(Weight(see=parse_term(text), score=score, say=f"{text} on {{node}}") for text, score in pairs)


def rule(name: str, when: tuple[Weight, ...], **fields: object) -> CauseRule:
    attribution = Attribution(name.partition(".")[0])
    values = {
        "cause": name.partition(".")[2],
        "action": Action.REPLACE_NODE if attribution is Attribution.HARDWARE else Action.DONT_RETRY_NOTIFY_USER,
        **fields,
    }
    return CauseRule(
        rule_id=name, attribution=attribution, when=when, meaning="", advice="", decide=f"look at {name}",
        near_miss="", origin="", **values,  # type: ignore[arg-type]
    )  # fmt: skip


def seen(kind: str, **fields: object) -> Finding:
    return Finding(finding_id=f"{kind}:{fields}", kind=kind, role=Role.CAUSE, **fields)  # type: ignore[arg-type]


def test_a_decisive_finding_gives_a_verdict_with_its_culprit() -> None:
    book = CauseBook.of((rule("hardware.lost", weights(("xid_79", 6))),))
    said = judge([seen("xid_79", node="n1", rank=2, device="b1", process="77")], book)
    assert (said.attribution, said.cause, said.action) == (Attribution.HARDWARE, "lost", Action.REPLACE_NODE)
    assert said.culprit.model_dump() == {"node_id": "n1", "rank": 2, "gpu_uuid": "b1", "process": "pid 77"}
    assert said.confidence == 0.99
    assert said.best is not None
    assert said.best.support[0].sentence == "xid_79 on n1"


def test_below_the_confidence_it_is_unknown_and_costs_no_node() -> None:
    book = CauseBook.of((rule("hardware.a", weights(("odd", 2))), rule("user.b", weights(("odd", 2)))))
    said = judge([seen("odd", node="n1")], book)
    assert said.attribution is Attribution.UNKNOWN
    assert said.action is Action.RESTART_PROCESS
    assert [each.rule.rule_id for each in said.hypotheses] == ["hardware.a", "user.b"]
    assert said.decide == ("look at hardware.a", "look at user.b")


def test_support_and_contradiction_are_added_and_shown() -> None:
    subject = rule("user.a", weights(("bug", 3)), more=weights(("again", 1)), less=weights(("xid_79@node", 4)))
    book = CauseBook.of((subject,))
    plain = judge([seen("bug", node="n1")], book)
    more = judge([seen("bug", node="n1"), seen("again")], book)
    less = judge([seen("bug", node="n1"), seen("xid_79", node="n1")], book)
    far = judge([seen("bug", node="n1"), seen("xid_79", node="n2")], book)
    scores = [said.best.score for said in (plain, more, less, far) if said.best is not None]
    assert scores == [3, 4, -1, 3]
    assert less.attribution is Attribution.UNKNOWN
    assert less.best is not None
    assert [(each.score, each.sentence) for each in less.best.against] == [(-4, "xid_79@node on n1")]


def test_of_several_anchors_the_one_with_most_support_is_blamed() -> None:
    book = CauseBook.of((rule("user.a", weights(("bug", 3)), more=weights(("late@rank", 1))),))
    findings = [seen("bug", node="n", rank=each) for each in range(4)] + [seen("late", node="n", rank=2)]
    assert judge(findings, book).culprit.rank == 2


def test_order_of_evidence_does_not_matter() -> None:
    book = CauseBook.of(
        (
            rule("user.a", weights(("bug", 3), ("again", 2)), less=weights(("xid@node", 1))),
            rule("hardware.b", weights(("xid", 3)), more=weights(("bug@node", 0.5))),
        )
    )
    findings = [
        seen("bug", node="n1", rank=1), seen("bug", node="n2", rank=2), seen("xid", node="n2"),
        seen("again", node="n1"),
    ]  # fmt: skip
    first, *others = [judge(order, book) for order in itertools.permutations(findings)]
    assert all(said == first for said in others)


def test_an_action_may_depend_on_the_case() -> None:
    choice = ActionChoice(see=parse_term("node_gone@node"), action=Action.REBOOT_NODE)
    book = CauseBook.of((rule("hardware.a", weights(("xid", 5)), actions=(choice,)),))
    assert judge([seen("xid", node="n1")], book).action is Action.REPLACE_NODE
    assert judge([seen("xid", node="n1"), seen("node_gone", node="n1")], book).action is Action.REBOOT_NODE


def test_a_rule_that_is_only_observed_changes_nothing_and_is_shown() -> None:
    book = CauseBook.of((rule("user.a", weights(("bug", 5)), state=RuleState.OBSERVE),))
    said = judge([seen("bug")], book)
    assert (said.attribution, said.cause) == (Attribution.UNKNOWN, "unrecognised")
    assert [each.rule.rule_id for each in said.observed] == ["user.a"]


def test_a_rule_that_is_off_is_not_evaluated() -> None:
    assert judge([seen("bug")], CauseBook.of((rule("user.a", weights(("bug", 5)), state=RuleState.OFF),))).best is None


def test_two_rules_of_one_cause_do_not_count_twice() -> None:
    one = CauseBook.of((rule("user.a", weights(("bug", 2)), cause="same"),))
    two = CauseBook.of(
        (rule("user.a", weights(("bug", 2)), cause="same"), rule("user.b", weights(("bug", 2)), cause="same"))
    )
    assert judge([seen("bug")], one).confidence == judge([seen("bug")], two).confidence


def test_priors_lean_towards_a_party() -> None:
    prior = Prior(attribution=Attribution.USER, see=parse_term("first_minute"), score=1, say="it is young", origin="")
    book = CauseBook.of((rule("user.a", weights(("odd", 2))), rule("hardware.b", weights(("odd", 2)))), (prior,))
    assert judge([seen("odd")], book).attribution is Attribution.UNKNOWN
    assert judge([seen("odd"), seen("first_minute")], book).attribution is Attribution.USER


def test_without_hypotheses_it_says_whether_there_was_anything() -> None:
    book = CauseBook.of(())
    assert judge([], book).cause == "no_evidence"
    assert judge([], book).action is Action.WAIT_OR_IGNORE
    assert judge([seen("bug")], book).cause == "unrecognised"
    assert judge([seen("bug")], book).action is Action.RESTART_PROCESS


def test_lines_that_only_look_like_errors_are_shown_and_nothing_is_done() -> None:
    said = judge([replace(seen("unrecognised"), role=Role.UNRECOGNISED)], CauseBook.of(()))
    assert (said.cause, said.action) == ("unrecognised", Action.WAIT_OR_IGNORE)


def test_a_log_line_is_never_read_as_a_template() -> None:
    hostile = rule("user.a", (Weight(see=parse_term("bug"), score=3, say="it said {text} {nonsense}"),))
    said = judge([seen("bug", text="{node.__class__} {text}", node="n")], CauseBook.of((hostile,)))
    assert said.best is not None
    assert said.best.support[0].sentence == "it said {node.__class__} {text} ?"


def test_what_is_not_known_is_left_out_of_the_sentence() -> None:
    subject = rule("user.a", (Weight(see=parse_term("bug"), score=3, say="code of rank {rank} on {node} broke"),))
    for finding, sentence in (
        (seen("bug"), "code of a rank broke"),
        (seen("bug", rank=3), "code of rank 3 broke"),
        (seen("bug", node="n1"), "code of a rank on n1 broke"),
    ):
        said = judge([finding], CauseBook.of((subject,)))
        assert said.best is not None
        assert said.best.support[0].sentence == sentence


def test_a_gpu_without_a_name_is_a_gpu() -> None:
    subject = rule("hardware.a", (Weight(see=parse_term("bug"), score=3, say="GPU {device} on {node} broke"),))
    said = judge([seen("bug", node="n1")], CauseBook.of((subject,)))
    assert said.best is not None
    assert said.best.support[0].sentence == "a GPU on n1 broke"


def test_nobody_is_blamed_where_a_rule_says_so() -> None:
    for kind, node in ((CulpritKind.NOBODY, None), (CulpritKind.NODE, "n1")):
        book = CauseBook.of((rule("user.a", weights(("bug", 3)), culprit=kind),))
        culprit = judge([seen("bug", node="n1", rank=1)], book).culprit
        assert (culprit.node_id, culprit.rank) == (node, None)


@pytest.mark.parametrize("value", [0.0, 0.29, 0.96])
def test_a_useless_threshold_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="confidence_min"):
        JudgePolicy(confidence_min=value)


def test_while_the_job_is_well_an_unsure_verdict_does_nothing() -> None:
    book = CauseBook.of((rule("hardware.a", weights(("odd", 0.5))),))
    assert judge([seen("odd")], book).action is Action.RESTART_PROCESS
    assert judge([seen("odd"), seen("work_went_on")], book).action is Action.WAIT_OR_IGNORE
    assert judge([seen("odd"), seen("work_went_on")], CauseBook.of(())).action is Action.WAIT_OR_IGNORE
