"""How many connections the worker socket takes, and from whom: one rank's script must not use up what others need."""

from __future__ import annotations

import resource
from collections.abc import Iterable

from node_agent.application.ports import WorkerHandle

CONNECTIONS_MAX = 512
"""64 ranks with eight connections each; more than any node has."""
DESCRIPTORS_SHARE = 4
"""Connections take at most a quarter of what the process may open: pipes and pidfds of ranks need the rest."""
RANK_CONNECTIONS_MAX = 32
"""The rank itself has two; its children (data loaders, helpers) may report, too."""
STRANGERS_MAX = 128
"""Connections whose process is not known yet, because the order that started it has not returned."""


def connections_max() -> int:
    """For this process."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(RANK_CONNECTIONS_MAX, min(CONNECTIONS_MAX, soft // DESCRIPTORS_SHARE))


def refusal(others: Iterable[WorkerHandle | None], handle: WorkerHandle | None, *, limit: int) -> str:
    """Why a connection is not taken; empty when it is.

    Args:
        others: the owners of the connections there are; None: not known yet.
        handle: the owner of this one.
        limit: connections in all.
    """
    total = same = 0
    for other in others:
        total += 1
        if handle is None:
            same += other is None
        else:
            same += other is not None and other.pid == handle.pid
    if total >= limit:
        return f"more than {limit} connections"
    if handle is None and same >= STRANGERS_MAX:
        return f"more than {STRANGERS_MAX} connections of processes that are no worker yet"
    if handle is not None and same >= RANK_CONNECTIONS_MAX:
        return f"more than {RANK_CONNECTIONS_MAX} connections of rank {handle.rank}"
    return ""
