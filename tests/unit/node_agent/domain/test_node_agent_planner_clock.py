"""The planner's time is learned from its commands, whatever our own wall clock says."""

from datetime import UTC, datetime, timedelta

from fault_contracts.commands import EndJob, StopWorkers
from fault_contracts.payload import Fence, Reason
from fault_contracts.recovery import JobOutcome
from node_agent.domain.planner_clock import PlannerClock, heard

SENT = datetime(2030, 1, 1, tzinfo=UTC)
WHY = Reason(rule_id="t.t", sentence="because")


def stop(version: int, *, epoch: int = 1) -> StopWorkers:
    fence = Fence(topology_version=version, attempt=0, incident_id="i", epoch=epoch)
    return StopWorkers(job_id="j", fence=fence, operation_id="o", expires_at=SENT, grace_s=1, reason=WHY)


def end(version: int) -> EndJob:
    fence = Fence(topology_version=version, attempt=0, incident_id="i", epoch=1)
    return EndJob(job_id="j", fence=fence, operation_id="e", expires_at=SENT, outcome=JobOutcome.SUCCEEDED, reason=WHY)


def told(*commands: tuple[StopWorkers | EndJob, float, float]) -> PlannerClock:
    """Commands with the second in which they were sent, by the planner, and heard, by us."""
    known = None
    for command, sent_s, heard_s in commands:
        known = heard(known, command, sent_at=SENT + timedelta(seconds=sent_s), monotonic_s=heard_s)
    assert known is not None
    return known


def seconds(clock: PlannerClock, monotonic_s: float) -> float:
    return (clock.now(monotonic_s) - SENT).total_seconds()


def test_from_the_first_command_on_it_goes_with_our_monotonic_clock() -> None:
    assert seconds(told((stop(1), 0, 500)), 540) == 40


def test_a_command_that_was_long_under_way_does_not_put_it_back() -> None:
    assert seconds(told((stop(1), 0, 500), (stop(2), 10, 560)), 560) == 60


def test_a_faster_one_puts_it_right() -> None:
    """The first was three seconds under way, so the planner's clock was taken for three seconds behind."""
    assert seconds(told((stop(1), 0, 503), (stop(2), 10, 510)), 510) == 10


def test_an_old_command_that_comes_once_more_changes_nothing() -> None:
    assert seconds(told((stop(2), 0, 500), (stop(1), -90, 510)), 510) == 10


def test_another_leader_has_another_clock() -> None:
    assert seconds(told((stop(1), 0, 500), (stop(1, epoch=2), -45, 510)), 510) == -45


def test_what_an_earlier_leader_sent_says_nothing_of_the_clock_of_this_one() -> None:
    assert seconds(told((stop(1, epoch=2), 0, 500), (stop(1), 900, 510)), 510) == 10


def test_a_leader_whose_clock_is_put_back_is_followed() -> None:
    """A newer command that was sent earlier: else an hour of its commands would count as expired."""
    assert seconds(told((stop(1), 3_600, 500), (end(1), 10, 510)), 511) == 11


def test_our_monotonic_clock_does_not_go_back_before_the_reading() -> None:
    assert seconds(told((stop(1), 0, 500)), 499) == 0
