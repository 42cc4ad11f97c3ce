"""The re-executable block against a scripted agent on a real socket: faults, aborts, races, and a lost agent."""

from __future__ import annotations

import gc
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from block_agent import Agent, Reply, let_in

import worker_link
from worker_link import block as block_module
from worker_link import block_channel
from worker_link.block_channel import ChannelLost
from worker_link.frames import encode
from worker_link.generation import Generation
from worker_link.strike import RestartRequested


def wait_until(check: Callable[[], object]) -> None:
    end_s = time.monotonic() + 5
    while not check():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def spin(seconds: float = 10.0) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        time.sleep(0.001)
    raise AssertionError("nobody called this thread out of its block")


def test_an_exception_is_told_and_the_function_is_called_again_with_the_new_generation(
    agent: Callable[[Reply], Agent], capfd: pytest.CaptureFixture[str]
) -> None:
    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "at_barrier":
            a.send("go", topology_version=2, checkpoint_step=40, checkpoint_path="/c/40",
                   env={"RANK": "3", "PHALANX_TOPOLOGY_VERSION": "2", "MASTER_PORT": "4"})  # fmt: skip

    a = agent(reply)
    calls: list[Generation] = []

    @worker_link.reexecutable
    def train(generation: Generation, word: str) -> str:
        calls.append(generation)
        if len(calls) == 1:
            raise ValueError("bad shard")
        return word

    assert train("done") == "done"
    assert [(g.topology_version, g.rank, g.in_place, g.checkpoint) for g in calls] == [
        (1, 0, False, None),
        (2, 3, True, (40, "/c/40")),
    ]
    assert (os.environ["MASTER_PORT"], worker_link.checkpoint()) == ("4", (40, "/c/40"))
    wanted = ["hello", "block_entered", "block_faulted", "at_barrier", "block_entered", "block_finished"]
    wait_until(lambda: a.kinds() == wanted)
    fault = a.seen[2]
    assert (fault["error_type"], fault["message"], fault["topology_version"]) == ("ValueError", "bad shard", 1)
    assert "in train" in fault["callstack"]
    assert "worker_link/block.py" not in fault["callstack"], "the block's own frames are nobody's business"
    assert "ValueError: bad shard" in capfd.readouterr().err, "a person sees it in the rank's stderr"


def test_an_abort_calls_out_of_python_code_and_is_no_fault(agent: Callable[[Reply], Agent]) -> None:
    unblocked: list[str] = []

    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "block_entered" and message["topology_version"] == 1:
            a.abort(1)
        let_in(a, message)

    a = agent(reply)

    @worker_link.reexecutable(abort=lambda: unblocked.append(threading.current_thread().name))
    def train(generation: Generation) -> int:
        if generation.topology_version == 1:
            try:
                spin()
            except Exception:  # noqa: BLE001  as scripts do it
                pytest.fail("an `except Exception` of the script swallowed it")
        return generation.topology_version

    assert train() == 2
    assert "block_faulted" not in a.kinds()
    assert len(unblocked) == 1, "the abort hook runs once for a restart"


def test_a_thread_that_waits_in_a_call_is_freed_by_the_abort_hook(agent: Callable[[Reply], Agent]) -> None:
    """As a collective: no bytecode runs, so the exception alone cannot reach it."""
    here, there = socket.socketpair()

    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "block_entered" and message["topology_version"] == 1:
            time.sleep(0.05)
            a.abort(1)
        let_in(a, message)

    a = agent(reply)

    @worker_link.reexecutable(abort=lambda: there.shutdown(socket.SHUT_RDWR))
    def train(generation: Generation) -> int:
        if generation.topology_version == 1 and not here.recv(1):
            raise RuntimeError("Connection closed by peer")
        return generation.topology_version

    assert train() == 2
    assert "block_faulted" not in a.kinds(), "what an abort makes a script raise is not its fault"
    here.close()
    there.close()


def test_a_script_that_swallows_the_exception_is_struck_again(
    agent: Callable[[Reply], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_channel, "STRIKE_AGAIN_S", 0.05)

    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "block_entered" and message["topology_version"] == 1:
            inside.wait(5)
            a.abort(1)
        let_in(a, message)

    inside = threading.Event()
    agent(reply)
    swallowed: list[BaseException] = []

    @worker_link.reexecutable
    def train(generation: Generation) -> int:
        while generation.topology_version == 1 and len(swallowed) < 3:
            try:
                inside.set()
                spin()
            except BaseException as error:  # noqa: BLE001  as scripts do it
                swallowed.append(error)
        if generation.topology_version == 1:
            spin()
        return generation.topology_version

    assert train() == 2
    assert {type(error) for error in swallowed} == {RestartRequested}


def test_orders_of_another_version_are_not_obeyed(agent: Callable[[Reply], Agent]) -> None:
    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "block_entered" and message["topology_version"] == 1:
            a.abort(0)
            a.go(1)
        elif message["type"] == "at_barrier":
            a.go(1)
            a.go(3)
            a.go(2)

    a = agent(reply)
    calls: list[int] = []

    @worker_link.reexecutable
    def train(generation: Generation) -> None:
        calls.append(generation.topology_version)
        if len(calls) == 1:
            time.sleep(0.1)  # the abort of version 0 is there by now
            raise OSError

    train()
    assert calls == [1, 3]
    wait_until(lambda: a.kinds().count("block_entered") == 2)


def test_a_go_that_comes_before_the_rank_is_back_is_not_lost(agent: Callable[[Reply], Agent]) -> None:
    """The race of a client that empties its queue before it waits."""

    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "block_faulted":
            a.go(2)

    agent(reply)
    calls: list[int] = []

    @worker_link.reexecutable(finalise=lambda: time.sleep(0.1))
    def train(generation: Generation) -> None:
        calls.append(generation.topology_version)
        if len(calls) == 1:
            raise OSError

    train()
    assert calls == [1, 2]


def test_an_abort_before_the_block_is_entered_is_obeyed_at_its_entry(agent: Callable[[Reply], Agent]) -> None:
    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "at_barrier" and message["topology_version"] == 1:
            a.abort(2)  # version 2 broke before this rank heard of it
            a.go(2)
        elif message["type"] == "at_barrier":
            a.go(3)

    agent(reply)
    calls: list[int] = []

    @worker_link.reexecutable
    def train(generation: Generation) -> None:
        calls.append(generation.topology_version)
        if generation.topology_version == 1:
            raise OSError

    train()
    assert calls == [1, 3]


@pytest.mark.parametrize("hook", ["abort", "finalise", "health_check"])
def test_a_hook_that_fails_makes_the_rank_unfit(agent: Callable[[Reply], Agent], hook: str) -> None:
    a = agent(let_in)

    def broken() -> None:
        raise RuntimeError("no more")

    calls: list[int] = []

    def fn(generation: Generation) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError

    worker_link.reexecutable(fn, **{hook: broken})()  # type: ignore[arg-type]
    barrier = a.seen[a.kinds().index("at_barrier")]
    assert barrier["healthy"] is False
    assert "RuntimeError: no more" in barrier["reason"]


def test_a_health_check_that_says_no_makes_the_rank_unfit(agent: Callable[[Reply], Agent]) -> None:
    a = agent(let_in)

    @worker_link.reexecutable(health_check=lambda: False)
    def train(generation: Generation) -> None:
        if not generation.in_place:
            raise OSError

    train()
    assert a.seen[a.kinds().index("at_barrier")]["healthy"] is False


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_passes(agent: Callable[[Reply], Agent], error: type[BaseException]) -> None:
    a = agent(let_in)

    @worker_link.reexecutable
    def train(generation: Generation) -> None:
        raise error

    with pytest.raises(error):
        train()
    wait_until(lambda: a.kinds() == ["hello", "block_entered"])


def test_without_an_agent_to_open_the_barrier_the_scripts_own_error_is_raised(agent: Callable[[Reply], Agent]) -> None:
    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "at_barrier":
            a.hang_up()

    agent(reply)

    @worker_link.reexecutable
    def train(generation: Generation) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised:
        train()
    assert isinstance(raised.value.__cause__, ChannelLost)


def test_the_wait_at_the_barrier_has_an_end(agent: Callable[[Reply], Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_BARRIER_WAIT_S", "0.1")
    agent(lambda _agent, _message: None)

    @worker_link.reexecutable
    def train(generation: Generation) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        train()


def test_noise_from_the_agent_neither_ends_nor_restarts_the_work(agent: Callable[[Reply], Agent]) -> None:
    def reply(a: Agent, message: dict[str, Any]) -> None:
        if message["type"] == "block_entered":
            assert a.connection is not None
            a.connection.sendall(encode({"type": "from_the_future"}) + random.Random(3).randbytes(400))

    agent(reply)

    @worker_link.reexecutable
    def train(generation: Generation) -> str:
        time.sleep(0.05)
        return "done"

    assert train() == "done"


def test_blocks_cannot_be_nested_but_follow_each_other(agent: Callable[[Reply], Agent]) -> None:
    a = agent(let_in)
    inner = worker_link.reexecutable(lambda _generation: "inner")

    @worker_link.reexecutable
    def outer(generation: Generation) -> str:
        try:
            return inner()
        except RuntimeError as error:
            return str(error)

    assert "cannot be nested" in outer()
    assert inner() == "inner"
    wait_until(lambda: a.kinds().count("block_finished") == 2)


def test_without_phalanx_the_function_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_WORKER_SOCKET", raising=False)
    monkeypatch.setenv("RANK", "2")

    @worker_link.reexecutable
    def train(generation: Generation) -> int:
        raise KeyError(generation.rank)

    with pytest.raises(KeyError, match="2"):
        train()


def test_an_agent_that_cannot_be_reached_costs_a_warning_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_module, "_channel", None)
    monkeypatch.setenv("PHALANX_WORKER_SOCKET", str(tmp_path / "nobody"))
    with pytest.warns(UserWarning, match="cannot restart in place"):
        assert worker_link.reexecutable(lambda _generation: "done")() == "done"


def test_aborts_at_any_moment_end_in_a_barrier_or_in_a_finished_block(agent: Callable[[Reply], Agent]) -> None:
    """150 generations, each aborted at about the time at which it also raises by itself."""
    rng, last = random.Random(11), 150
    gc.freeze()  # each barrier collects garbage; pytest's makes that 0.1 s and more

    def reply(a: Agent, message: dict[str, Any]) -> None:
        version = message.get("topology_version", 0)
        if message["type"] == "block_entered" and version < last:
            end_s = time.perf_counter() + rng.random() * 1e-3
            while time.perf_counter() < end_s:
                pass
            a.abort(version)
        let_in(a, message)

    a = agent(reply)
    entered: list[int] = []

    @worker_link.reexecutable
    def train(generation: Generation) -> None:
        entered.append(generation.topology_version)
        if generation.topology_version < last:
            end_s = time.perf_counter() + rng.random() * 8e-3
            while time.perf_counter() < end_s:
                pass
            raise OSError("at about the same time")

    train()
    assert entered == sorted(set(entered))
    assert entered[-1] == last
    wait_until(lambda: a.kinds()[-1] == "block_finished")
    barriers = [m["topology_version"] for m in a.seen if m["type"] == "at_barrier"]
    assert barriers == list(range(1, last)), "one barrier for each generation, in order"
    faults = sum(m["type"] == "block_faulted" for m in a.seen)
    assert 0 < faults < last - 1, "both ways must have happened for the test to mean something"
