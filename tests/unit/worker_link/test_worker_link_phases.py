"""Declared phases: what is said at their edges, nested ones, and what an agent refuses."""

from __future__ import annotations

import pytest

from worker_link.client import WorkerLink
from worker_link.message_fields import MessageError
from worker_link.messages import from_wire, to_wire
from worker_link.phase_messages import PHASE_LENGTH_MAX, PhaseBegun, PhaseDone, PhaseMessage
from worker_link.phases import PhaseStack


class Told:
    def __init__(self) -> None:
        self.messages: list[PhaseMessage] = []
        self.version = 3
        self.stack = PhaseStack(self.messages.append, lambda: self.version)


def test_both_edges_are_told_also_when_the_block_raises() -> None:
    told = Told()
    with pytest.raises(OSError, match="disk"), told.stack.entered("checkpoint"):
        raise OSError("disk")
    assert told.messages == [
        PhaseBegun(phase="checkpoint", topology_version=3),
        PhaseDone(topology_version=3),
    ]


def test_the_outer_phase_goes_on_when_the_inner_one_ends() -> None:
    told = Told()
    with told.stack.entered("evaluation"), told.stack.entered("checkpoint"):
        pass
    assert [getattr(message, "phase", None) for message in told.messages] == [
        "evaluation",
        "checkpoint",
        "evaluation",
        None,
    ]


def test_phases_that_a_restart_in_place_unwinds_are_told_as_the_old_generations() -> None:
    told = Told()
    with told.stack.entered("evaluation"), told.stack.entered("checkpoint"):
        told.version = 4
    assert [message.topology_version for message in told.messages] == [3, 3, 3, 3]


@pytest.mark.parametrize("name", ["", "x" * (PHASE_LENGTH_MAX + 1)])
def test_a_name_that_is_none_is_the_scripts_mistake(name: str) -> None:
    with pytest.raises(ValueError, match="a phase has a name"), Told().stack.entered(name):
        pass


def test_without_an_agent_it_does_nothing() -> None:
    with WorkerLink(socket_path=None).phase("evaluation"):
        pass


def test_the_words_survive_the_wire_and_bad_ones_are_refused() -> None:
    for message in (PhaseBegun(phase="evaluation", topology_version=2), PhaseDone(topology_version=2)):
        assert from_wire(to_wire(message)) == message
    with pytest.raises(MessageError, match=r"phase_begun\.phase"):
        from_wire({"type": "phase_begun", "phase": "x" * (PHASE_LENGTH_MAX + 1)})
    with pytest.raises(MessageError, match=r"phase_done\.topology_version"):
        from_wire({"type": "phase_done", "topology_version": -1})
