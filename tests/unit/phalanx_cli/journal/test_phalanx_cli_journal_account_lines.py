"""Figures that a person can read, and none where nothing is known."""

from datetime import UTC, datetime

import pytest

from fault_contracts.accounts import CauseCost, IncidentAccount, JobAccount
from fault_contracts.faults import Attribution
from phalanx_cli.journal.account_lines import account_lines, cost_words, duration, gpu_time

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def job(**fields: object) -> JobAccount:
    sums = "waiting_s training_s down_s waiting_gpu_s training_gpu_s down_gpu_s spare_gpu_s redone_s redone_gpu_s"
    known: dict[str, object] = dict.fromkeys(sums.split(), 0.0)
    return JobAccount.model_validate({**known, "since": NOON, "until": NOON, "ranks": 8, "incidents": 0, **fields})


def test_where_the_time_of_a_job_went() -> None:
    cost = CauseCost(
        attribution=Attribution.HARDWARE, cause="gpu_fell_off_bus", incidents=2, down_gpu_s=80.0, nodes_taken=1
    )
    account = job(
        waiting_s=10.0, training_s=3_600.0, down_s=10.0, redone_s=100.0, training_gpu_s=28_800.0, ettr=0.9668,
        goodput=0.95, incidents=2, causes=(cost, CauseCost(attribution=Attribution.UNKNOWN)),
    )  # fmt: skip
    text = "\n".join(account_lines(account))
    assert "1 h 00 min: 58 min 20 s useful, 1 min 40 s done again, 10.0 s down, 10.0 s before the first start" in text
    assert "ETTR 96.68 %, goodput 95.00 % of 8.0 GPU-h" in text
    assert "hardware, gpu_fell_off_bus: 2 x, down 80.0 GPU-s, 0 steps done again (0.0 GPU-s), nodes taken: 1" in text
    assert "unknown, no verdict: 0 x" in text
    assert "at most" not in text


def test_figures_that_leave_something_out_say_so() -> None:
    text = "\n".join(account_lines(job(ettr=0.9, incidents=3, unpriced=2)))
    assert "ETTR at most 90.00 %" in text
    assert "2 of 3 incidents: the cost of lost steps is not known" in text
    assert "goodput at most unknown" in text


def test_more_causes_than_are_shown_are_counted() -> None:
    many = tuple(CauseCost(attribution=Attribution.USER, cause=f"c{number}") for number in range(20))
    assert "... and 8 more causes" in "\n".join(account_lines(job(causes=many)))


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"steps_redone": None}, "how many steps are done again is not known"),
        ({"steps_redone": 1}, "1 step done again, how long they took is not known"),
        ({"steps_redone": 3, "redone_gpu_s": 7_200.0}, "3 steps done again (2.0 GPU-h)"),
    ],
)
def test_a_cost_names_what_is_not_known(fields: dict[str, object], end: str) -> None:
    account = IncidentAccount.model_validate(
        {"ranks": 1, "ranks_after": 1, "down_s": 2.0, "down_gpu_s": 2.0, "redone_gpu_s": None, **fields}
    )
    words = cost_words(account)
    assert words.startswith("2.00 s of 1 GPU (2.0 GPU-s) standing still")
    assert words.endswith(end)


def test_durations() -> None:
    assert [duration(s) for s in (0.314, 12.34, 307.0, 11_100.0)] == ["0.31 s", "12.3 s", "5 min 07 s", "3 h 05 min"]
    assert gpu_time(59.96) == "60.0 GPU-s"
