"""Who only died of somebody else's death, and who merely looks like it."""

from __future__ import annotations

import pytest
from judge_story import GLOO_CLOSED, GLOO_RESET, died, raised

from fault_classifier.domain.signal_number import signal_name
from fault_classifier.domain.victim import is_communication_error, victim_reason

C10D = "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py:3252 in all_reduce: work.wait()"
LOADER = "/home/alice/loader.py:12 in fetch: self.socket.recv(4096)"


@pytest.mark.parametrize(
    ("type_", "message", "frames"),
    [
        ("RuntimeError", GLOO_CLOSED, ()),
        ("RuntimeError", GLOO_RESET, ()),
        ("RuntimeError", "Connection closed by peer [10.0.0.3]:4711", ()),
        ("RuntimeError", "Application timeout caused pair closure", ()),
        ("RuntimeError", "Timed out waiting 1800000ms for recv operation to complete", ()),
        ("RuntimeError", "Gloo connectFullMesh failed with Connection refused", ()),
        ("torch.distributed.DistBackendError", "NCCL error in: ProcessGroupNCCL.cpp, ncclRemoteError", ()),
        ("DistStoreError", "Timed out after 31 seconds waiting for clients. 1/2 clients joined.", ()),
        ("DistNetworkError", "The client socket has failed to connect to any network address", ()),
        ("RuntimeError", "NCCL communicator was aborted on rank 3", ()),
        ("ConnectionResetError", "[Errno 104] Connection reset by peer", (LOADER, C10D)),
        ("BrokenPipeError", "[Errno 32] Broken pipe", (C10D,)),
    ],
)
def test_errors_that_speak_of_a_peer(type_: str, message: str, frames: tuple[str, ...]) -> None:
    assert is_communication_error(raised(type_, message, frames=frames))


@pytest.mark.parametrize(
    ("type_", "message", "frames"),
    [
        # An object store resets a connection: the data loader's trouble, not a peer's death.
        ("ConnectionResetError", "[Errno 104] Connection reset by peer", (LOADER,)),
        ("TimeoutError", "read timed out", ()),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered", ()),
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (4x8 and 4x4)", (C10D,)),
        ("ValueError", "Connection closed by peer is not a label", ()),
        ("KeyError", "'tcpstore'", ()),
    ],
)
def test_errors_that_only_look_like_it(type_: str, message: str, frames: tuple[str, ...]) -> None:
    assert not is_communication_error(raised(type_, message, frames=frames))


def test_aborting_first_on_a_node_stands_for_itself_and_after_another_death_does_not() -> None:
    assert victim_reason(died(0, signal=6)) is None
    assert victim_reason(died(1, signal=6, ordinal=1)) is not None


def test_a_kill_after_another_death_is_still_a_kill() -> None:
    assert victim_reason(died(1, signal=9, ordinal=1)) is None


def test_a_silent_exit_is_read_by_its_last_lines() -> None:
    assert victim_reason(died(0, code=1, tail=("terminate called", GLOO_CLOSED))) is not None
    assert victim_reason(died(0, code=1, tail=("bad config",))) is None
    # With an exception the exception speaks; others' words in the log do not.
    assert victim_reason(died(0, code=1, error=raised(), tail=(GLOO_CLOSED,))) is None


def test_signals_have_their_linux_names() -> None:
    assert (signal_name(9), signal_name(11), signal_name(44)) == ("SIGKILL", "SIGSEGV", "signal 44")
