"""A rank that no abort frees is said to be unfit, where it sits in torch's own call, and only there."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from block_agent import Agent, Reply, let_in

import worker_link
from worker_link import block_channel
from worker_link.generation import Generation
from worker_link.standstill import LOOKS_MIN, Standstill


@pytest.mark.parametrize(("file", "told"), [("/x/torch/distributed/c10d.py", True), ("/x/train.py", False)])
def test_a_rank_that_no_abort_frees_from_torchs_own_call_says_that_it_is_unfit(
    agent: Callable[[Reply], Agent], monkeypatch: pytest.MonkeyPatch, file: str, told: bool
) -> None:
    monkeypatch.setattr(block_channel, "STRIKE_AGAIN_S", 0.02)
    here, there = socket.socketpair()
    names: dict[str, Any] = {}
    exec(compile("def wait(peer): peer.recv(1)", file, "exec"), names)
    strikes: list[int] = []

    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "block_entered" and message["topology_version"] == 1:
            # Not before it is in the call: in Python code the exception alone would call it out.
            while not any(frame.f_code.co_filename == file for frame in sys._current_frames().values()):
                time.sleep(0.005)
            time.sleep(0.05)
            a.abort(1)
        elif message["type"] == "at_barrier":
            there.shutdown(socket.SHUT_RDWR)  # as the end of the process would
            let_in(a, message)

    a = agent(reply)

    def abort() -> None:
        strikes.append(1)
        if len(strikes) == 10:
            there.shutdown(socket.SHUT_RDWR)

    @worker_link.reexecutable(abort=abort)
    def train(generation: Generation) -> int:
        if generation.topology_version == 1:
            names["wait"](here)
        return generation.topology_version

    assert train() == 2
    first = next(message for message in a.seen if message["type"] == "at_barrier")
    assert first["healthy"] is not told
    assert ("wait of torch/distributed/c10d.py:1" in first["reason"]) is told
    here.close()
    there.close()


def test_a_thread_that_moves_stands_nowhere() -> None:
    names: dict[str, Any] = {}
    code = "def here(look):\n    look()\n    look()\n    for _ in range(4): look()"
    exec(compile(code, "/x/torch/distributed/c10d.py", "exec"), names)
    still, told = Standstill(), []
    frames = {}

    def look() -> None:
        frames[1] = sys._getframe(1)
        told.append(still.look(1, 7))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "_current_frames", lambda: frames)
        names["here"](look)
    assert [bool(each) for each in told] == [False, False, False, True, False, False], "once, and not for two lines"
    assert LOOKS_MIN == 2


def test_nobody_inside_stands_nowhere() -> None:
    assert Standstill().look(None, 1) == ""
    assert Standstill().look(threading.get_ident(), 1) == ""
