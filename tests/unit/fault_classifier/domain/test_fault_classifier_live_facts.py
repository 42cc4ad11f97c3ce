"""Ranks that live and cannot go on: whose fault it is, who is named, and when a log rule is the user's."""

from __future__ import annotations

import pytest
from judge_story import Judge, died, faulted, lost, lost_peer, verdict_on

from fault_classifier.domain.intake import compact


@pytest.mark.parametrize(
    ("check", "attribution"),
    [("process_stopped", "platform"), ("process_blocked", "platform"), ("hang", "unknown"), ("log_rule", "unknown")],
)
def test_each_check_has_its_verdict_at_once(check: str, attribution: str) -> None:
    judge = Judge()
    (verdict,) = judge.see(faulted(check, 3, 2, rule="the_rule"))
    assert (verdict.attribution, verdict.cause, verdict.action) == (attribution, check, "restart_process")
    assert (verdict.culprit.node_id, verdict.culprit.rank, verdict.culprit.process) == ("node-1", 3, "pid 1003")
    assert "ranks 3, 2 on node-1" in verdict.reasons[0].sentence
    assert "the_rule" in verdict.reasons[0].sentence
    assert not verdict.provisional


def test_a_hang_of_all_names_nobody() -> None:
    verdict = verdict_on(faulted("hang"))
    assert (verdict.cause, verdict.culprit.node_id, verdict.culprit.rank) == ("hang", None, None)


def test_an_unknown_check_is_kept_and_read_by_no_rule() -> None:
    assert verdict_on(faulted("moon_phase", 1)).cause == "unrecognised"


def test_deaths_of_waiting_peers_do_not_hide_the_hang_and_a_kill_does() -> None:
    assert verdict_on(died(0, error=lost_peer()), faulted("hang", 2)).cause == "hang"
    assert verdict_on(died(0, signal=9), faulted("hang", 2)).cause == "process_killed"
    assert verdict_on(faulted("hang", 1), lost("node-1")).cause == "agent_lost"


def test_the_same_log_rule_at_the_same_step_again_is_the_users() -> None:
    judge = Judge()
    judge.see(faulted("log_rule", 1, rule="nan_loss", step=7, tag="a"), version=1)
    (second,) = judge.see(faulted("log_rule", 3, rule="nan_loss", step=7, tag="b"), version=2)
    assert (second.attribution, second.cause, second.action) == ("user", "repeated_log_rule", "dont_retry_notify_user")
    assert "nan_loss" in second.reasons[0].sentence
    assert set(second.reasons[0].evidence_ids) == {"log_rule-(1,)a", "log_rule-(3,)b"}


@pytest.mark.parametrize(("rule", "step"), [("nan_loss", 8), ("other", 7), ("nan_loss", None)])
def test_another_rule_or_step_is_tried_again(rule: str, step: int | None) -> None:
    judge = Judge()
    judge.see(faulted("log_rule", 1, rule="nan_loss", step=7, tag="a"), version=1)
    (second,) = judge.see(faulted("log_rule", 1, rule=rule, step=step, tag="b"), version=2)
    assert second.cause == "log_rule"


def test_where_steps_are_unknown_it_takes_three_times_without_a_checkpoint() -> None:
    judge = Judge()
    causes = [
        judge.see(faulted("log_rule", 1, rule="nan_loss", checkpoint=10, tag=str(version)), version=version)[0].cause
        for version in (1, 2, 3)
    ]
    assert causes == ["log_rule", "log_rule", "repeated_log_rule"]


def test_a_generation_that_somebody_stopped_proves_nothing() -> None:
    judge = Judge()
    judge.see(faulted("log_rule", 1, rule="nan_loss", step=7, tag="a"), version=1)
    judge.see(faulted("process_stopped", 0), version=1)
    (second,) = judge.see(faulted("log_rule", 1, rule="nan_loss", step=7, tag="b"), version=2)
    assert second.cause == "log_rule"


def test_an_older_generation_keeps_what_a_repetition_is_known_by() -> None:
    judge = Judge()
    judge.see(faulted("log_rule", 1, rule="nan_loss", step=7))
    (kept,) = compact(judge.job.generation(1)).faulted
    assert (kept.rule_id, kept.step) == ("nan_loss", 7)
