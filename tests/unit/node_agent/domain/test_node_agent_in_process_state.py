"""In-process mode allows what process mode does, and a few moves more; nothing else."""

import pytest

from fault_contracts.agent import AgentPhase
from node_agent.domain.agent_state import TRANSITIONS, AgentEvent, TransitionRefused, step
from node_agent.domain.in_process_state import IN_PROCESS_TRANSITIONS

P, E = AgentPhase, AgentEvent


def test_process_mode_is_contained() -> None:
    assert {key: IN_PROCESS_TRANSITIONS[key] for key in TRANSITIONS} == dict(TRANSITIONS)


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ([(E.RANK_FAILED), E.STOP, E.AT_BARRIER, E.START], P.RUNNING),
        ([E.STOP, E.RANK_FAILED, E.AT_BARRIER, E.RANK_FAILED, E.START], P.RUNNING),
        ([E.STOP, E.AT_BARRIER, E.FALL_BACK, E.STOPPED, E.START], P.RUNNING),
        ([E.STOP, E.FALL_BACK, E.STOPPED], P.READY),
        ([E.STOP, E.AT_BARRIER, E.LEAVE], P.SHUTDOWN),
    ],
)
def test_ways_through_the_barrier(path: list[AgentEvent], end: AgentPhase) -> None:
    phase = P.RUNNING
    for event in path:
        phase = step(phase, event, table=IN_PROCESS_TRANSITIONS).after
    assert phase is end


@pytest.mark.parametrize(
    ("phase", "event"), [(P.RUNNING, E.AT_BARRIER), (P.READY, E.AT_BARRIER), (P.SHUTDOWN, E.START), (P.INIT, E.START)]
)
def test_an_illegal_move_is_refused(phase: AgentPhase, event: AgentEvent) -> None:
    with pytest.raises(TransitionRefused):
        step(phase, event, table=IN_PROCESS_TRANSITIONS)


def test_process_mode_knows_no_barrier() -> None:
    for event in (E.AT_BARRIER, E.FALL_BACK):
        assert not any(key[1] is event for key in TRANSITIONS)
