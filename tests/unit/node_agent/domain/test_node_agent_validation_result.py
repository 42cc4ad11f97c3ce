"""What the checks together mean."""

from fault_contracts.payload import Health
from node_agent.domain.validation_result import CheckResult, ValidationVerdict, verdict_of


def result(health: Health, check: str = "matmul", *, counts: bool = True) -> CheckResult:
    """One line."""
    return CheckResult(check=check, subject="cuda:0", health=health, rule_id="t", sentence="seen", counts=counts)


def test_all_good_passes() -> None:
    assert verdict_of([result(Health.OK)] * 3)[0] is ValidationVerdict.PASS


def test_one_bad_fails_whatever_the_rest_says_and_is_named() -> None:
    verdict, reason = verdict_of([result(Health.OK), result(Health.UNKNOWN), result(Health.BAD, "memory_pattern")])
    assert verdict is ValidationVerdict.FAIL
    assert "memory_pattern cuda:0" in reason.sentence


def test_unknown_is_not_a_pass() -> None:
    assert verdict_of([result(Health.OK), result(Health.UNKNOWN, "ledger")])[0] is ValidationVerdict.UNKNOWN


def test_what_nobody_asked_for_decides_nothing() -> None:
    assert verdict_of([result(Health.OK), result(Health.UNKNOWN, counts=False)])[0] is ValidationVerdict.PASS


def test_nothing_checked_is_unknown() -> None:
    assert verdict_of([])[0] is ValidationVerdict.UNKNOWN
    assert verdict_of([result(Health.UNKNOWN, counts=False)])[0] is ValidationVerdict.UNKNOWN


def test_a_thousand_bad_lines_make_a_sentence_of_bounded_length() -> None:
    assert len(verdict_of([result(Health.BAD)] * 1_000)[1].sentence) <= 2_000
