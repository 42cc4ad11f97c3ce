"""Two looks at one rank become evidence: what it used and whether it moved in between."""

from __future__ import annotations

from dataclasses import dataclass

from node_agent.domain.rank_evidence import ProcessState, RankEvidence
from node_agent.domain.stack_groups import RankStack, StackPlace, has_moved

CHATTER_BYTES_PER_S = 65_536.0
"""Reads and writes below this rate are a helper thread's heartbeat or a poll of a pipe, not the rank's work. Bytes that
reach a disk count from the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """What a process has used since its start, all threads.

    Attributes:
        cpu_s: of the process itself.
        children_cpu_s: of the living processes that it started: the workers of its data loader.
        storage_bytes: read from and written to storage; 0 where the kernel does not tell.
        any_bytes: through any read or write: files in the page cache, sockets, pipes.
    """

    cpu_s: float
    children_cpu_s: float = 0.0
    storage_bytes: int = 0
    any_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLook:
    """One look at one rank.

    Attributes:
        at_s: monotonic.
        usage: None when it could not be read.
        stack: None when no dump came, or did not show the main thread.
    """

    at_s: float
    state: ProcessState = ProcessState.UNKNOWN
    state_age_s: float = 0.0
    usage: ProcessUsage | None = None
    stack: RankStack | None = None


def evidence_of(before: RankLook | None, now: RankLook) -> RankEvidence:
    """What the newest look shows, and what follows from the one before it; None there is a first look."""
    cpu_share, io_bytes = _used(before, now)
    both = None if before is None or before.stack is None or now.stack is None else (before.stack, now.stack)
    return RankEvidence(
        state=now.state,
        state_age_s=now.state_age_s,
        cpu_share=cpu_share,
        io_bytes=io_bytes,
        stack=now.stack,
        moved=None if both is None else has_moved(*both),
    )


def _used(before: RankLook | None, now: RankLook) -> tuple[float | None, int | None]:
    if before is None or before.usage is None or now.usage is None or now.at_s <= before.at_s:
        return None, None
    elapsed_s = now.at_s - before.at_s
    cpu_s = now.usage.cpu_s - before.usage.cpu_s
    if now.stack is not None and now.stack.place is StackPlace.DATA_LOADER:
        # It waits for children who work for it; elsewhere a child (a logger, a profiler) says nothing about the rank.
        cpu_s += max(0.0, now.usage.children_cpu_s - before.usage.children_cpu_s)
    io_bytes = max(0, now.usage.storage_bytes - before.usage.storage_bytes)
    any_bytes = max(0, now.usage.any_bytes - before.usage.any_bytes)
    if any_bytes >= CHATTER_BYTES_PER_S * elapsed_s:
        io_bytes = max(io_bytes, any_bytes)
    return max(0.0, cpu_s) / elapsed_s, io_bytes
