"""Injects one fault into the running job, and says what it did; when is decided by the caller from what it saw."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from phalanx_cli.demo.scenario import WORLD_SIZE, Fault
from phalanx_cli.demo.story import JobStory


class InjectionFailed(Exception):
    """The target was not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault that was injected: the truth for the report."""

    fault: Fault
    sentence: str
    target: str


def inject(fault: Fault, story: JobStory, faults_dir: Path) -> Injection:
    """Hit rank 3, the node of the highest node_rank, or make rank 1 fail once.

    Raises:
        InjectionFailed: the process to be hit is not known or has ended.
    """
    match fault:
        case Fault.KILL_RANK:
            rank = WORLD_SIZE - 1
            pid = story.pid_of(rank)
            node_id, _ = story.holder(rank)
            _kill(pid, f"rank {rank} on {node_id}")
            return Injection(fault=fault, sentence=f"kill -9 of rank {rank} on {node_id} (pid {pid})", target=node_id)
        case Fault.KILL_NODE:
            node_id = story.rank_table[-1]
            pid = story.nodes[node_id].agent_pid
            _kill(pid, f"the agent of {node_id}")
            return Injection(fault=fault, sentence=f"kill -9 of the agent of {node_id} (pid {pid})", target=node_id)
        case Fault.EXCEPTION:
            rank = 1
            (faults_dir / f"fail_rank_{rank}").touch()
            node_id, _ = story.holder(rank)
            return Injection(
                fault=fault, sentence=f"rank {rank} on {node_id} raises OSError once, in its next step", target=node_id
            )
        case Fault.BUG:
            raise InjectionFailed("the bug is in the second job's arguments from its start")


def _kill(pid: int | None, what: str) -> None:
    if not pid:
        raise InjectionFailed(f"the process of {what} is not known")
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        raise InjectionFailed(f"{what} (pid {pid}) has ended already") from None
