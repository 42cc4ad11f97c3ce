"""What has broken a generation, kept small, and which of it counts."""

from datetime import UTC, datetime, timedelta

from recovery_planner.domain.load_trial import SIGNS_MAX, FaultSign, LoadTrial, fingerprint_of, with_sign

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def sign(rank: int | None, fingerprint: str, after_s: float = 0.0) -> FaultSign:
    return FaultSign(rank=rank, fingerprint=fingerprint, observed_at=NOON + timedelta(seconds=after_s))


def test_the_first_to_fail_counts_whatever_came_first() -> None:
    trial = with_sign(with_sign(LoadTrial(), sign(1, "victim", 2)), sign(0, "cause", 1))
    assert fingerprint_of(trial, None) == "cause"


def test_the_rank_that_the_verdict_blames_counts_more() -> None:
    trial = with_sign(with_sign(LoadTrial(), sign(1, "cause", 2)), sign(0, "victim", 1))
    assert fingerprint_of(trial, 1) == "cause"
    assert fingerprint_of(trial, 7) == "victim", "nothing is known of rank 7"


def test_no_sign_is_unknown() -> None:
    assert fingerprint_of(LoadTrial(), 0) == ""


def test_a_repeat_and_more_than_the_limit_change_nothing() -> None:
    trial = LoadTrial()
    for rank in range(SIGNS_MAX + 5):
        trial = with_sign(trial, sign(rank, "f"))
    assert len(trial.signs) == SIGNS_MAX
    assert with_sign(trial, trial.signs[0]) is trial
