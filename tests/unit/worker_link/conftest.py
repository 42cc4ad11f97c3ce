"""An agent for the tests of the re-executable block; its answers are the test's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from block_agent import Agent, Reply

from worker_link import block as block_module
from worker_link.strike import StrikeGate


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Reply], Agent]]:
    made: list[Agent] = []
    monkeypatch.setattr(block_module, "_channel", None)
    monkeypatch.setattr(block_module, "_gate", StrikeGate())
    saved = dict(os.environ)
    os.environ.update(PHALANX_WORKER_SOCKET=str(tmp_path / "s"), RANK="0", WORLD_SIZE="2", PHALANX_TOPOLOGY_VERSION="1")

    def make(reply: Reply) -> Agent:
        made.append(Agent(tmp_path / "s", reply))
        made[-1].start()
        return made[-1]

    yield make
    os.environ.clear()
    os.environ.update(saved)
    for each in made:
        each.listener.close()
        if each.connection is not None:
            each.connection.close()
