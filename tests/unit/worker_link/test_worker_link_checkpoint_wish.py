"""All ranks of a gang save after the same step, however the request finds them; one that is too late saves nothing."""

import warnings

import pytest

from worker_link.checkpoint_wish import CheckpointWish
from worker_link.messages import CheckpointRequest, from_wire, to_wire

AT_7 = CheckpointRequest(reason="pre-emption", deadline_s=30.0, at_step=7)


def saves(*, arrives_after: int, every: int = 1, request: CheckpointRequest = AT_7, until: int = 20) -> list[int]:
    """Steps after which a rank that asks every so many steps saves, when the request comes behind its n-th step."""
    wish, saved, told = CheckpointWish(), [], False
    for step in range(every, until, every):
        if step > arrives_after and not told:
            wish.receive(request)
            told = True
        if wish.due(step):
            saved.append(step)
    return saved


@pytest.mark.parametrize("arrives_after", [0, 3, 5, 6])
def test_whenever_it_arrives_the_step_is_the_same_and_it_comes_once(arrives_after: int) -> None:
    assert saves(arrives_after=arrives_after) == [7]


@pytest.mark.parametrize("arrives_after", [0, 6, 9])
def test_ranks_that_ask_every_ten_steps_save_at_the_same_tenth(arrives_after: int) -> None:
    assert saves(arrives_after=arrives_after, every=10) == [10]


def test_a_rank_that_is_past_the_step_does_not_save_alone_and_says_so() -> None:
    with pytest.warns(UserWarning, match="after step 7 came after step 7 and is not obeyed"):
        assert saves(arrives_after=7) == []


def test_a_repeat_of_an_obeyed_request_is_no_second_checkpoint_and_no_complaint() -> None:
    wish = CheckpointWish()
    wish.receive(AT_7)
    assert wish.due(7) == AT_7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wish.receive(AT_7)
    assert wish.due(8) is None


def test_a_request_without_a_step_is_due_at_once() -> None:
    wish = CheckpointWish()
    wish.receive(CheckpointRequest(reason="now"))
    assert wish.due(None) is not None


def test_a_request_for_a_step_waits_for_a_script_that_has_reported_none() -> None:
    wish = CheckpointWish()
    wish.receive(AT_7)
    assert wish.due(None) is None


def test_the_step_travels_and_an_older_agent_may_leave_it_out() -> None:
    assert from_wire(to_wire(AT_7)) == AT_7
    assert from_wire({"type": "checkpoint_request", "reason": "r"}) == CheckpointRequest(reason="r")
