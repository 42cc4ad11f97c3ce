"""What is remembered of earlier signals, and how they are counted."""

from datetime import UTC, datetime, timedelta

from fault_contracts.health import Component
from fault_contracts.payload import Health
from health_ingest.domain.seen import SEEN_MAX, Distinct, Same, Seen, remember, seen_within, times_seen
from health_ingest.domain.signal import Entity, Signal

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def signal(*, job: str = "", location: str = "", ago_s: float = 0.0, check: str = "xid_13") -> Signal:
    attributes = {"location": location} if location else {}
    return Signal(
        signal_id=f"{check}-{job}-{ago_s}",
        entity=Entity(node_id="node-a", component=Component.GPU, component_id="GPU-1", check=check),
        health=Health.BAD,
        detail="",
        observed_at=NOW - timedelta(seconds=ago_s),
        job_id=job,
        attributes=attributes,
    )


def times(
    history: tuple[Seen, ...], current: Signal, *, distinct: Distinct = Distinct.JOBS, same: Same = Same.GPU
) -> int:
    return times_seen(history, current, within_s=3_600.0, distinct=distinct, same=same, now=NOW)


def history_of(*signals: Signal) -> tuple[Seen, ...]:
    history: tuple[Seen, ...] = ()
    for each in signals:
        history = remember(history, each)
    return history


def test_one_job_counts_once_however_often_it_fails() -> None:
    history = history_of(*(signal(job="a", ago_s=ago) for ago in (50, 40, 30)))
    assert times(history, signal(job="a")) == 1
    assert times(history, signal(job="b")) == 2


def test_a_signal_that_no_job_is_known_of_counts_for_no_job() -> None:
    history = history_of(signal(ago_s=20), signal(job="a", ago_s=10))
    assert times(history, signal()) == 1


def test_what_is_older_than_the_window_or_another_code_does_not_count() -> None:
    history = history_of(signal(job="a", ago_s=4_000), signal(job="b", ago_s=10, check="xid_31"))
    assert times(history, signal(job="c")) == 1


def test_the_same_sm_is_needed_where_the_rule_asks_for_it() -> None:
    history = history_of(signal(job="a", location="gpc1/tpc3/sm0", ago_s=9), signal(job="b", location="gpc0", ago_s=8))
    assert times(history, signal(job="c", location="gpc1/tpc3/sm0"), same=Same.SM) == 2
    assert times(history, signal(job="c", location="gpc1/tpc3/sm0"), same=Same.GPU) == 3
    assert times(history, signal(job="c"), same=Same.SM) == 1


def test_a_storm_of_one_job_does_not_push_out_what_others_met() -> None:
    history = history_of(signal(job="a", ago_s=3_000), *(signal(job="b", ago_s=2_000 - n) for n in range(500)))
    assert len(history) == 2
    assert times(history, signal(job="c")) == 3


def test_the_history_is_bounded() -> None:
    history = history_of(*(signal(job=f"job-{n}", ago_s=1_000 - n) for n in range(200)))
    assert len(history) == SEEN_MAX
    assert history[-1].job_id == "job-199"


def test_several_lines_of_one_fault_are_one_burst() -> None:
    history = history_of(signal(ago_s=5), signal(ago_s=3))
    assert times(history, signal(), distinct=Distinct.ANY) == 1


def test_bursts_are_counted_hours_apart() -> None:
    bursts = [signal(ago_s=start - n) for start in (3_000, 2_000, 1_000) for n in range(100)]
    assert times(history_of(*bursts), signal(), distinct=Distinct.ANY) == 4


def test_a_signal_that_comes_late_changes_no_count() -> None:
    history = history_of(signal(ago_s=1_000), signal(ago_s=1_100))
    assert len(history) == 1
    assert history[0].at == NOW - timedelta(seconds=1_000)


def test_another_check_seen_lately() -> None:
    history = history_of(signal(check="xid_63", ago_s=100))
    assert seen_within(history, "xid_63", within_s=300, now=NOW)
    assert not seen_within(history, "xid_63", within_s=50, now=NOW)
    assert not seen_within(history, "xid_64", within_s=300, now=NOW)
