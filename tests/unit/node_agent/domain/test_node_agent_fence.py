"""Which commands are obeyed: newer ones, unexpired ones, each once."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from fault_contracts.commands import Command, EndJob, StartWorkers, StopWorkers
from fault_contracts.payload import Fence, Reason
from fault_contracts.preemption import RequestCheckpoint
from fault_contracts.recovery import JobOutcome
from fault_contracts.recovery_level import RecoveryLevel
from node_agent.domain.fence import NOTHING_SEEN, FencePoint, Ruling, judge, point_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WHY = Reason(rule_id="t.t", sentence="because")


def fields(version: int, attempt: int = 0, epoch: int = 1, expires_at: datetime = NOW + timedelta(seconds=9)) -> dict:
    fence = Fence(topology_version=version, attempt=attempt, incident_id="i", epoch=epoch)
    return {"job_id": "j", "fence": fence, "operation_id": f"op-{version}-{attempt}", "expires_at": expires_at}


def start(version: int, attempt: int = 0, epoch: int = 1) -> StartWorkers:
    return StartWorkers(
        **fields(version, attempt, epoch),
        base_version=0,
        nnodes=1,
        world_size=1,
        master_addr="a",
        master_port=1,
        restart_count=0,
        level=RecoveryLevel.PROCESS,
    )


def stop(version: int, attempt: int = 0, epoch: int = 1) -> StopWorkers:
    return StopWorkers(**fields(version, attempt, epoch), grace_s=1, reason=WHY)


def request(version: int) -> RequestCheckpoint:
    return RequestCheckpoint(**fields(version), at_step=9, within_s=30, reason=WHY)


def end(version: int, attempt: int = 0, epoch: int = 1) -> EndJob:
    return EndJob(**fields(version, attempt, epoch), outcome=JobOutcome.SUCCEEDED, reason=WHY)


def ruling(command: Command, newest: FencePoint, *, done_before: bool = False) -> Ruling:
    return judge(command, newest=newest, done_before=done_before, now=NOW).ruling


def test_commands_have_one_order() -> None:
    story = [
        start(1),
        stop(1, attempt=1),
        start(2, attempt=1),
        request(2),
        stop(2, attempt=2),
        start(3, attempt=2),
        stop(
            3, attempt=1
        ),  # a new incident begins to count anew, and its stop still comes after the start of version 3
        stop(3, attempt=2),
        stop(3, attempt=2, epoch=2),
        end(3),
        start(4),
    ]
    for older, newer in pairwise(story):
        assert ruling(newer, point_of(older)) is Ruling.OBEY
        assert ruling(older, point_of(newer)) is Ruling.REFUSE


@pytest.mark.parametrize("command", [start(1), stop(0), end(0)])
def test_the_first_command_of_a_life_is_obeyed_whatever_it_is(command: Command) -> None:
    assert ruling(command, NOTHING_SEEN) is Ruling.OBEY


def test_the_same_place_again_under_another_operation_is_stale() -> None:
    verdict = judge(stop(2, 1), newest=point_of(stop(2, 1)), done_before=False, now=NOW)
    assert (verdict.ruling, verdict.code) == (Ruling.REFUSE, "stale")
    assert "stop of version 2, attempt 1, epoch 1 is not newer than" in verdict.reason.sentence


def test_a_known_operation_is_a_repeat_even_when_it_expired_meanwhile() -> None:
    late = StopWorkers(**fields(1, expires_at=NOW - timedelta(seconds=5)), grace_s=1, reason=WHY)
    assert ruling(late, point_of(late), done_before=True) is Ruling.REPEAT


def test_an_expired_command_is_refused_with_its_age() -> None:
    late = StopWorkers(**fields(1, expires_at=NOW - timedelta(seconds=5)), grace_s=1, reason=WHY)
    verdict = judge(late, newest=NOTHING_SEEN, done_before=False, now=NOW)
    assert (verdict.ruling, verdict.code) == (Ruling.REFUSE, "expired")
    assert "5.0 s ago" in verdict.reason.sentence
