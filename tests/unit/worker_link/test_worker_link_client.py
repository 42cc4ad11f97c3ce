"""The link never blocks and never raises into training, and loses no checkpoint while the agent is away."""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import worker_link
from worker_link import client as client_module
from worker_link.client import QUEUE_MESSAGES_MAX, WorkerLink
from worker_link.frames import FrameReader, encode
from worker_link.messages import CheckpointRequest, to_wire


class Agent:
    """The least that a link can talk to."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(5)
        self.connection: socket.socket | None = None
        self.reader = FrameReader()

    def accept(self) -> None:
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(5)
        self.reader = FrameReader()

    def next(self) -> dict[str, Any]:
        assert self.connection is not None
        while (message := self.reader.next_message()) is None:
            data = self.connection.recv(65536)
            assert data, "the link closed the connection"
            self.reader.receive_data(data)
        return message

    def until(self, kind: str) -> dict[str, Any]:
        while (message := self.next())["type"] != kind:
            continue
        return message

    def hang_up(self) -> None:
        assert self.connection is not None
        self.connection.close()

    def close(self) -> None:
        self.listener.close()
        if self.connection is not None:
            self.connection.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "s")
    yield agent
    agent.close()


@pytest.fixture
def link(tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerLink]:
    monkeypatch.setattr(client_module, "CONNECT_PAUSE_S", 0.0)
    link = WorkerLink(socket_path=str(tmp_path / "s"), rank=2, topology_version=7)
    yield link
    link.close()


def test_reports_arrive_in_order(link: WorkerLink, agent: Agent) -> None:
    link.labels(dp=0, tp=1)
    link.step(4)
    link.checkpoint_saved(4, Path("/ckpt/4"), writers=3)
    link.request_restart("process", "lost a peer")
    agent.accept()
    assert agent.next() == {"type": "hello", "rank": 2, "pid": os.getpid(), "token": "", "topology_version": 7}
    assert agent.next() == {"type": "rank_labels", "labels": {"dp": "0", "tp": "1"}}
    step = agent.next()
    assert (step["step"], step["phase"]) == (4, "finished")
    assert 0 <= time.monotonic() - step["at_monotonic_s"] < 5
    saved = {
        "type": "checkpoint_saved",
        "step": 4,
        "path": "/ckpt/4",
        "kind": "model",
        "writers": 3,
        "topology_version": 7,
    }
    assert agent.next() == saved
    assert agent.next() == {"type": "restart_request", "mode": "process", "reason": "lost a peer"}


def test_agent_that_goes_and_comes_back_gets_labels_and_checkpoints(link: WorkerLink, agent: Agent) -> None:
    link.labels(dp=1)
    agent.accept()
    agent.until("rank_labels")
    agent.hang_up()
    for step in range(3):
        link.step(step)
        link.checkpoint_saved(step, f"/c/{step}")
    agent.accept()
    assert agent.next()["type"] == "hello"
    assert agent.next() == {"type": "rank_labels", "labels": {"dp": "1"}}
    assert [agent.until("checkpoint_saved")["step"] for _ in range(3)] == [0, 1, 2]


def test_no_agent_costs_nothing_and_is_counted(tmp_path: Path) -> None:
    link = WorkerLink(socket_path=str(tmp_path / "nobody"), rank=0)
    for step in range(QUEUE_MESSAGES_MAX + 10):
        link.step(step)
        link.checkpoint_saved(step, "/x")
    assert not link.connected
    assert link.dropped == 10
    link.close()


def test_agent_that_does_not_read_never_blocks_training_and_only_the_newest_step_waits(
    link: WorkerLink, agent: Agent
) -> None:
    agent.accept()
    began = time.monotonic()
    last = 20_000
    for step in range(last + 1):
        link.step(step)
    assert time.monotonic() - began < 5
    assert link.dropped == 0
    steps = []
    while not steps or steps[-1] != last:
        steps.append(agent.until("step")["step"])
        link.checkpoint_requested()
        if steps[-1] < last:
            link._flush()  # as the next report would
    assert steps == sorted(set(steps))
    assert len(steps) < last


def test_step_is_cheap(link: WorkerLink, agent: Agent) -> None:
    agent.accept()
    costs = []
    for step in range(300):
        began = time.perf_counter()
        link.step(step)
        costs.append(time.perf_counter() - began)
        agent.until("step")
    # 20 us is the aim on an idle machine; a shared test machine gets some room.
    assert statistics.median(costs) < 60e-6


def test_checkpoint_request_is_seen_once(link: WorkerLink, agent: Agent) -> None:
    agent.accept()
    assert link.checkpoint_requested() is None
    assert agent.connection is not None
    wanted = CheckpointRequest(reason="pre-emption", deadline_s=30.0)
    agent.connection.sendall(encode({"type": "news"}) + encode(to_wire(wanted)))
    assert link.checkpoint_requested() == wanted
    assert link.checkpoint_requested() is None


def test_a_request_for_a_step_is_due_after_that_step_and_not_in_the_next_generation(
    link: WorkerLink, agent: Agent
) -> None:
    agent.accept()
    assert agent.connection is not None
    wanted = CheckpointRequest(reason="pre-emption", deadline_s=30.0, at_step=5)
    agent.connection.sendall(encode(to_wire(wanted)))
    link.step(4)
    assert link.checkpoint_requested() is None
    link.step(5)
    assert link.checkpoint_requested() == wanted
    agent.connection.sendall(encode(to_wire(CheckpointRequest(reason="again", at_step=9))))
    assert link.checkpoint_requested(6) is None
    link.restarted(rank=2, topology_version=8)
    assert link.checkpoint_requested(9) is None


def test_agent_that_talks_nonsense_is_left_and_tried_again(link: WorkerLink, agent: Agent) -> None:
    agent.accept()
    assert agent.connection is not None
    agent.connection.sendall(b"\xff" * 100)
    assert link.checkpoint_requested() is None
    assert not link.connected
    link.step(1)
    agent.accept()
    assert agent.until("step")["step"] == 1


def test_forked_child_does_not_speak_on_its_parents_connection(link: WorkerLink, agent: Agent) -> None:
    agent.accept()
    agent.until("hello")
    pid = os.fork()
    if pid == 0:
        link.step(99)
        os._exit(0)
    os.waitpid(pid, 0)
    link.step(1)
    assert agent.until("step")["step"] == 1
    agent.accept()
    assert agent.next()["pid"] == pid
    assert agent.until("step")["step"] == 99


def test_own_work_goes_with_the_step_that_it_is_of(link: WorkerLink, agent: Agent) -> None:
    agent.accept()
    link.step(0)
    link.work.done()
    link.step(1)
    link.step(2)
    link.step(3, busy_s=0.25)
    told = [agent.until("step")["busy_s"] for _ in range(4)]
    assert (told[0], told[2], told[3]) == (None, None, 0.25)
    assert told[1] >= 0
    link.work.done()
    link.restarted(rank=1, topology_version=8)
    link.work.done()
    link.step(0)
    assert agent.until("step")["busy_s"] is None, "the step before it was in another generation"


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_own_work_that_is_no_time_is_a_mistake(link: WorkerLink, wrong: float) -> None:
    with pytest.raises(ValueError, match="busy_s"):
        link.step(1, busy_s=wrong)


def test_mistakes_of_the_script_are_told(link: WorkerLink) -> None:
    with pytest.raises(ValueError, match="-1"):
        link.step(-1)
    with pytest.raises(ValueError, match="universe"):
        link.request_restart("universe", "")
    with pytest.warns(UserWarning, match=r"checkpoint_saved\.path"):
        link.checkpoint_saved(1, "x" * 5000)


def test_without_phalanx_everything_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PHALANX_WORKER_SOCKET", "PHALANX_CHECKPOINT_STEP", "PHALANX_TOPOLOGY_VERSION", "RANK"):
        monkeypatch.delenv(name, raising=False)
    link = worker_link.connect()
    assert not link.enabled
    link.step(1)
    link.checkpoint_saved(1, "/x")
    assert link.checkpoint_requested() is None
    assert (worker_link.checkpoint(), worker_link.topology_version()) == (None, 0)
    monkeypatch.setenv("PHALANX_CHECKPOINT_STEP", "40")
    monkeypatch.setenv("PHALANX_CHECKPOINT_PATH", "/c/40")
    monkeypatch.setenv("PHALANX_TOPOLOGY_VERSION", "3")
    assert (worker_link.checkpoint(), worker_link.topology_version()) == ((40, "/c/40"), 3)
