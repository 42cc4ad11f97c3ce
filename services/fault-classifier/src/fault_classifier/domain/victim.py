"""Who only died of somebody else's death: communication errors, and signals that follow another death.

A victim is never the root cause while any other evidence is there. It is recognised by what the communication layers
say about a *peer*; an exception that only has to do with a network (an object store resets a connection) is none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fault_classifier.domain.evidence import Exit, Raised
from fault_classifier.domain.signal_number import SignalNumber, signal_name

_DISTRIBUTED_TYPES = frozenset({"DistBackendError", "DistStoreError", "DistNetworkError"})
"""torch.distributed's own classes (torch/_C/_distributed_c10d): a peer, the store or the network between."""

_PEER_GONE = re.compile(
    r"gloo/"  # every gloo transport error names its C++ file, e.g. third_party/gloo/gloo/transport/tcp/pair.cc
    r"|Gloo connectFullMesh"
    r"|Connection closed by peer"
    r"|Connection reset by peer"
    r"|Application timeout caused pair closure"
    r"|Timed out waiting \d+ ?ms for (?:recv|send) operation"
    r"|TCPStore|c10d::"
    r"|The client socket has (?:timed out|failed to connect)"
    r"|Connection was likely closed\. Did the remote server shutdown or crash"
    r"|nccl(?:RemoteError|SystemError|InternalError)|NCCL (?:error|communicator was aborted)"
    r"|Watchdog caught collective operation timeout"
    r"|remote process exited or there was a network error",
)
_SOCKET_TYPES = frozenset(
    {"ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError", "BrokenPipeError", "TimeoutError"}
)
"""Python's own classes: a peer's death only when torch.distributed was on the stack."""

_DISTRIBUTED_FRAME = re.compile(r"torch/distributed/|distributed_c10d\.py|c10d_logger\.py|rendezvous\.py")

_TOLD_TO_END = frozenset({SignalNumber.SIGTERM, SignalNumber.SIGHUP, SignalNumber.SIGINT})
"""Somebody asked it to end: a scheduler, a person, a parent. That names no cause by itself."""


def is_communication_error(error: Raised) -> bool:
    """Whether an exception speaks of a peer that is gone, not of this rank."""
    if error.name in _DISTRIBUTED_TYPES:
        return True
    if error.name in _SOCKET_TYPES:
        return any(_DISTRIBUTED_FRAME.search(frame) for frame in error.frames)
    return error.name in {"RuntimeError", "DistError"} and _PEER_GONE.search(error.message) is not None


def victim_reason(exit_: Exit) -> str | None:
    """Why a death is somebody else's, in words; None when it stands for itself.

    Judged by this death alone and its place on its node, so that the answer does not depend on what arrives later.
    """
    status = exit_.status
    words = _victims_words(exit_.error, status.exit_code, status.signal, exit_.ordinal > 0, exit_.stderr_tail)
    return None if words is None else f"rank {exit_.rank} on {exit_.node_id} {words}"


@lru_cache(
    maxsize=1_024
)  # asked some ten times about each death in hand; the patterns are the dearest part of a verdict
def _victims_words(
    error: Raised | None, exit_code: int | None, signal: int | None, after_another: bool, tail: tuple[str, ...]
) -> str | None:
    if error is not None and is_communication_error(error):
        return f"died of a lost peer ({error.name})"
    if signal is not None and signal in _TOLD_TO_END:
        return f"was told to end ({signal_name(signal)})"
    if signal == SignalNumber.SIGABRT:
        if after_another:
            return "aborted after another rank of its node had died"
        if any(_PEER_GONE.search(line) for line in tail):
            return "aborted because a collective failed"
    silent = exit_code not in (None, 0) and error is None
    if silent and any(_PEER_GONE.search(line) for line in tail):
        return "ended with a communication error in its last lines"
    return None
