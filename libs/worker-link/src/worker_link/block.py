"""The re-executable block: a training function that is called again in the same process after a fault anywhere.

    @worker_link.reexecutable
    def train(generation):
        dist.init_process_group("gloo")
        ...
    train()

A round: call the function; when it raises, or the agent says that somebody else failed, unblock and clear
torch.distributed, run the user's hooks, wait at the barrier, take over the new environment, call again. The way back
ends in one of three ways: the barrier opens, the agent ends this process, or the agent is gone and the error is raised.
"""

from __future__ import annotations

import functools
import gc
import os
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

from worker_link import strike
from worker_link.block_channel import BlockChannel, ChannelLost
from worker_link.block_fault import fault_report, tell
from worker_link.block_hooks import Hook, Hooks
from worker_link.block_messages import AtBarrier, BlockEntered, BlockFinished
from worker_link.generation import Generation, generation_of, put_in_place
from worker_link.process_link import process_link
from worker_link.store_wait import wait_for_store
from worker_link.strike import StrikeGate, call_inside
from worker_link.torch_abort import abort_process_groups

BARRIER_S_MAX = 3_600.0
"""The planner waits for a replacement node for 300 s by default; past an hour nobody will open this barrier. Set
PHALANX_BARRIER_WAIT_S to change it."""
STORE_WAIT_S_MAX = 2.0
"""A survivor is ready before a replaced rank 0 has opened its store; knocking too early costs half a second."""

_OWN_FILES = (__file__, strike.__file__)
R = TypeVar("R")

_gate = StrikeGate()
_channel: BlockChannel | None = None
_running = threading.Lock()


@overload
def reexecutable(
    fn: Callable[..., R],
    *,
    abort: Hook = ...,
    finalise: Hook | None = ...,
    health_check: Hook | None = ...,
) -> Callable[..., R]: ...
@overload
def reexecutable(
    fn: None = None,
    *,
    abort: Hook = ...,
    finalise: Hook | None = ...,
    health_check: Hook | None = ...,
) -> Callable[[Callable[..., R]], Callable[..., R]]: ...
def reexecutable(
    fn: Callable[..., Any] | None = None,
    *,
    abort: Hook = abort_process_groups,
    finalise: Hook | None = None,
    health_check: Hook | None = None,
) -> Any:
    """Make a training function re-executable; it is called with a Generation before its own arguments.

    Args:
        fn: the function; without it a decorator is returned.
        abort: makes whatever waits for a peer fail at once; called from another thread while the function runs.
        finalise: called in the training thread after the process groups are gone, before the barrier.
        health_check: called after that; returning False or raising means that this process is to be replaced.

    Returns:
        A function with the user's own arguments and result. Without an agent it calls the function once.
    """
    if fn is None:
        return functools.partial(reexecutable, abort=abort, finalise=finalise, health_check=health_check)

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return _run(lambda generation: fn(generation, *args, **kwargs), Hooks(abort, finalise, health_check))

    return run


def _run(call: Callable[[Generation], R], hooks: Hooks) -> R:
    generation = generation_of(os.environ)
    if not os.environ.get("PHALANX_WORKER_SOCKET"):
        return call(generation)
    if not _running.acquire(blocking=False):
        raise RuntimeError("a re-executable block is running in this process; blocks cannot be nested")
    try:
        channel = _open_channel(generation, hooks)
        if channel is None:
            return call(generation)
        had_group = False
        while True:
            outcome = call_inside(_gate, generation.topology_version, _work(call, generation, after_a_group=had_group))
            if isinstance(outcome.error, KeyboardInterrupt | SystemExit):
                raise outcome.error
            if outcome.returned and _gate.aborted_version < generation.topology_version:
                _say_finished(channel, generation)
                return outcome.value  # type: ignore[no-any-return]
            # A result of a generation that was aborted meanwhile is done again with the others.
            generation, had_group = _come_back(channel, hooks, generation, outcome.error)
    finally:
        _running.release()


def _work(call: Callable[[Generation], Any], generation: Generation, *, after_a_group: bool) -> Callable[[], Any]:
    def work() -> Any:
        if after_a_group:
            wait_for_store(os.environ, wait_s_max=STORE_WAIT_S_MAX)
        return call(generation)

    return work


def _come_back(
    channel: BlockChannel, hooks: Hooks, generation: Generation, error: BaseException | None
) -> tuple[Generation, bool]:
    """From a broken generation to the next one.

    Raises:
        BaseException: the user's own error, when the agent is gone and nobody will open the barrier.
    """
    version = generation.topology_version
    link = process_link()
    try:
        if error is not None and _gate.aborted_version < version:
            # Else somebody else failed first, and this exception is what it looks like from here.
            tell(error, own_files=_OWN_FILES)
            step = None if link is None else link.last_step
            channel.send(fault_report(version, error, step, own_files=_OWN_FILES))
        hooks.abort_once(version)
        if error is not None:
            # The frames hold the model and the process groups of the broken generation, and would keep them alive.
            traceback.clear_frames(error.__traceback__)
        problem, had_group = hooks.clean()
        if link is not None:
            link.flush()
        channel.send(AtBarrier(topology_version=version, healthy=not problem, reason=problem[:1024]))
        # While the others come: groups that were part of a reference cycle let go of their sockets and memory.
        gc.collect()
        go = channel.wait_go(version, timeout_s=float(os.environ.get("PHALANX_BARRIER_WAIT_S") or BARRIER_S_MAX))
    except ChannelLost as lost:
        if error is not None:
            raise error from lost
        raise
    generation = put_in_place(go)
    if link is not None:
        link.restarted(rank=generation.rank, topology_version=generation.topology_version)
    channel.send(BlockEntered(topology_version=generation.topology_version))
    return generation, had_group


def _open_channel(generation: Generation, hooks: Hooks) -> BlockChannel | None:
    """The channel, with the block announced; None when the agent cannot be reached: then the function runs once."""
    global _channel  # noqa: PLW0603  one connection for the life of the process
    try:
        if _channel is None or _channel.pid != os.getpid():
            _channel = BlockChannel(
                path=os.environ["PHALANX_WORKER_SOCKET"],
                rank=generation.rank,
                topology_version=generation.topology_version,
                token=os.environ.get("PHALANX_WORKER_TOKEN", ""),
                gate=_gate,
            )
        _channel.on_abort(hooks.abort_once, hooks.abort_again)
        _channel.send(BlockEntered(topology_version=generation.topology_version))
    except (OSError, ChannelLost) as error:
        warnings.warn(f"worker_link: this rank cannot restart in place: {error}", stacklevel=4)
        return None
    return _channel


def _say_finished(channel: BlockChannel, generation: Generation) -> None:
    try:
        channel.send(BlockFinished(topology_version=generation.topology_version))
    except ChannelLost as error:
        # The work is done; without the message a stop ends this process, which is what it would do anyway.
        warnings.warn(f"worker_link: the end of the block was not reported: {error}", stacklevel=5)
