"""Injects one fault into the running job, and says what it did; when is decided by the caller from what it saw."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from phalanx_cli.demo.hosts import Hosts
from phalanx_cli.demo.scenario import WORLD_SIZE, Fault
from phalanx_cli.demo.story import JobStory
from phalanx_cli.drill.injection import Kind


class InjectionFailed(Exception):
    """The target was not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault that was injected: the truth for the report."""

    fault: Fault
    sentence: str
    node_id: str
    rank: int | None
    """Whom it hit; None: a whole node, or a device of it."""
    gpu_uuid: str = ""
    agents_killed: tuple[str, ...] = ()
    """Nodes whose agent was killed; they do not come back."""
    also: tuple[tuple[str, int | None], ...] = ()
    """Node and rank of what else was hit."""


HOT_CELSIUS = 72
"""Well below the limit of the device, and 31 degrees above its peers, which a fake GPU has at 41."""


def inject(fault: Fault, story: JobStory, faults_dir: Path, hosts: Hosts | None = None) -> Injection:
    """Hit a rank or a GPU of the last node, that node itself, or make a rank of the first node fail once.

    Raises:
        InjectionFailed: the process to be hit is not known or has ended.
    """
    rank: int | None
    match fault:
        case Fault.KILL_RANK | Fault.KILL_IN_PLACE | Fault.KILL_PLANNER:
            rank = WORLD_SIZE - 1
            node_id, pid = _signal_rank(story, rank, signal.SIGKILL)
            what = f"kill -9 of rank {rank} on {node_id} (pid {pid})"
        case Fault.STOP_RANK:
            rank = WORLD_SIZE - 2
            node_id, pid = _signal_rank(story, rank, signal.SIGSTOP)
            what = f"SIGSTOP of rank {rank} on {node_id} (pid {pid})"
        case Fault.NAN_LOSS:
            rank = 0
            node_id, _ = story.holder(rank)
            (faults_dir / f"nan_rank_{rank}").touch()
            what = f"rank {rank} on {node_id} prints a loss of NaN once, in its next step"
        case Fault.KILL_NODE | Fault.NO_SPARE:
            return _kill_agent(fault, story)
        case Fault.TWO_AT_ONCE:
            first, pid = _signal_rank(story, 0, signal.SIGKILL)
            killed = _kill_agent(fault, story)
            what = f"kill -9 of rank 0 on {first} (pid {pid}) and, with it, {killed.sentence}"
            return replace(killed, sentence=what, also=((first, 0),))
        case Fault.EXCEPTION | Fault.RAISE_IN_PLACE:
            rank = 1
            node_id, _ = story.holder(rank)
            (faults_dir / f"fail_rank_{rank}").touch()
            what = f"rank {rank} on {node_id} raises OSError once, in its next step"
        case Fault.POISONED:
            return _poison(fault, story, faults_dir)
        case Fault.XID_31 | Fault.XID_79 | Fault.HOT_GPU:
            assert hosts is not None, "the act with GPUs has hosts"
            return _break_gpu(fault, story, faults_dir, hosts)
        case Fault.BUG:
            raise InjectionFailed("the bug is in its job's arguments from the start")
        case Fault.THIRD_STRIKE:
            raise InjectionFailed("three strikes belong to no job")
    return Injection(fault=fault, sentence=what, node_id=node_id, rank=rank)


def _poison(fault: Fault, story: JobStory, faults_dir: Path) -> Injection:
    """One rank writes it, and all have it after the next step: whichever fails first is as good as the others."""
    rank = 1
    node_id, _ = story.holder(rank)
    (faults_dir / f"poison_rank_{rank}").touch()
    what = f"a weight of rank {rank} on {node_id} becomes NaN just before the next checkpoint is saved"
    others = tuple((story.holder(other)[0], other) for other in range(WORLD_SIZE) if other != rank)
    return Injection(fault=fault, sentence=what, node_id=node_id, rank=rank, also=others)


def _kill_agent(fault: Fault, story: JobStory) -> Injection:
    node_id = story.rank_table[-1]
    pid = _signal(story.nodes[node_id].agent_pid, f"the agent of {node_id}", signal.SIGKILL)
    what = f"kill -9 of the agent of {node_id} (pid {pid})"
    return Injection(fault=fault, sentence=what, node_id=node_id, rank=None, agents_killed=(node_id,))


def _break_gpu(fault: Fault, story: JobStory, faults_dir: Path, hosts: Hosts) -> Injection:
    """The rank that a program's own fault hits dies of it; what a sick GPU does to its rank is left to Phalanx."""
    rank = 1 if fault is Fault.XID_31 else WORLD_SIZE - 1
    node_id, local_rank = story.holder(rank)
    match fault:
        case Fault.XID_31:
            gpu = hosts.break_gpu(node_id, local_rank, Kind.XID, "31", pid=story.pid_of(rank))
            (faults_dir / f"cuda_rank_{rank}").touch()
            what = f"rank {rank} on {node_id} touches memory that is not its own: Xid 31 of GPU {gpu.uuid}"
            return Injection(fault=fault, sentence=what, node_id=node_id, rank=rank)
        case Fault.XID_79:
            gpu = hosts.break_gpu(node_id, local_rank, Kind.XID, "79")
            what = f"GPU {gpu.uuid} of {node_id} falls off the bus (Xid 79); its rank is left alone"
        case _:
            gpu = hosts.break_gpu(node_id, local_rank, Kind.THERMAL, str(HOT_CELSIUS))
            what = f"GPU {gpu.uuid} of {node_id} is at {HOT_CELSIUS} °C, within its limits; its peers are at 41"
    return Injection(fault=fault, sentence=what, node_id=node_id, rank=None, gpu_uuid=gpu.uuid)


def _signal_rank(story: JobStory, rank: int, number: signal.Signals) -> tuple[str, int]:
    node_id, _ = story.holder(rank)
    return node_id, _signal(story.pid_of(rank), f"rank {rank} on {node_id}", number)


def _signal(pid: int | None, what: str, number: signal.Signals) -> int:
    if not pid:
        raise InjectionFailed(f"the process of {what} is not known")
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise InjectionFailed(f"{what} (pid {pid}) has ended already") from None
    return pid
