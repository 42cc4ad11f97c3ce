"""The table of process mode: every pair of phase and event is listed here, legal or not."""

import pytest

from fault_contracts.agent import AgentPhase as P
from node_agent.domain.agent_state import TRANSITIONS, AgentEvent, TransitionRefused, step

E = AgentEvent

LEGAL = {
    P.INIT: {E.CONNECTED: P.READY, E.LEAVE: P.SHUTDOWN},
    P.READY: {E.START: P.RUNNING, E.STOP: P.STOPPING, E.LEAVE: P.SHUTDOWN},
    P.RUNNING: {
        E.RANK_FAILED: P.FAULTED,
        E.ALL_COMPLETED: P.COMPLETED,
        E.START_FAILED: P.STOPPING,
        E.STOP: P.STOPPING,
        E.LEAVE: P.SHUTDOWN,
        E.CHECKPOINT: P.RUNNING,
        E.STAND_DOWN: P.STOPPING,
    },
    P.STOPPING: {E.STOPPED: P.READY, E.LEAVE: P.SHUTDOWN},
    P.FAULTED: {
        E.RANK_FAILED: P.FAULTED,
        E.START_FAILED: P.STOPPING,
        E.STOP: P.STOPPING,
        E.LEAVE: P.SHUTDOWN,
        E.STAND_DOWN: P.STOPPING,
    },
    P.COMPLETED: {E.STOP: P.STOPPING, E.LEAVE: P.SHUTDOWN},
    P.SHUTDOWN: {},
}
PAIRS = [(phase, event) for phase in P for event in E]


@pytest.mark.parametrize(("phase", "event"), PAIRS)
def test_every_pair_is_either_in_the_table_or_refused(phase: P, event: AgentEvent) -> None:
    wanted = LEGAL[phase].get(event)
    if wanted is None:
        with pytest.raises(TransitionRefused, match=f"{event.value} is not possible in phase {phase.value}"):
            step(phase, event)
        return
    transition = step(phase, event)
    assert (transition.before, transition.event, transition.after) == (phase, event, wanted)


def test_a_start_is_possible_only_when_nothing_runs() -> None:
    assert [phase for phase, event in TRANSITIONS if event is E.START] == [P.READY]


def test_nothing_leaves_shutdown_and_every_other_phase_can_reach_it() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] is P.SHUTDOWN]
    assert {phase for phase, event in TRANSITIONS if event is E.LEAVE} == set(P) - {P.SHUTDOWN}
