"""What a step heartbeat costs: the training loop, the agent of a node at 1,000 steps/s, and the comparison of a gang.

script   CPU of one `link.step` with an agent that reads, and with own work measured; beside it the same without agent
agent    CPU of a process with the agent's socket, relay and windows while eight processes report 1,000 steps/s together
windows  the part of it that collects step times, alone
gang     CPU of comparing one window of all ranks in health-ingest

Writes .bench/steps.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fault_contracts.agent import JobSpec
from fault_contracts.envelope import Envelope
from fault_contracts.step_times import RankStepTimes, StepTimesReported
from health_ingest.domain.gang_pace import GangPace
from health_ingest.domain.straggler import StragglerPolicy
from node_agent.adapters.announcer import TerminalAnnouncer
from node_agent.adapters.checkpoint_files import LocalCheckpointFiles
from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_output import rank_files
from node_agent.adapters.worker_socket import WorkerSocket
from node_agent.application.agent_life import AgentIdentity, AgentLife, JobProgram
from node_agent.application.block_reports import BlockReports
from node_agent.application.discover_checkpoints import CheckpointDiscovery
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import ProgramKind, TerminalCopy, WorkerHandle, WorkerSource
from node_agent.application.relay_worker_reports import WorkerReportRelay
from node_agent.domain.checkpoint_check import CheckLevel
from node_agent.domain.progress import Progress
from node_agent.domain.step_window import StepWindows, WindowPolicy
from node_agent.domain.worker_group import WorkerGroup
from service_kit.clock import SystemClock
from training_topology.identity import LocalRank, Rank
from worker_link.client import WorkerLink

RANKS = 8
STEPS_PER_S = 1_000
STEPS = 20_000
START_S = 60.0
REPORTER = """
import sys, time
from worker_link.client import WorkerLink
path, rank, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
sys.stdin.read(1)  # go
link = WorkerLink(socket_path=path, rank=rank, topology_version=1)
began_s = time.monotonic()
for step in range(int(rate * seconds)):
    time.sleep(max(0.0, began_s + step / rate - time.monotonic()))
    link.work.done()
    link.step(step)
"""


class Sink:
    """An outbox that forgets."""

    async def put(self, envelope: Envelope[Any], *, urgent: bool = False) -> None:
        """Drop."""


def cpu_us(work: Callable[[], object], count: int, repeat: int = 3) -> float:
    """Least CPU of this thread per piece of work, over a few runs."""
    took_s = []
    for _ in range(repeat):
        began_s = time.thread_time()
        work()
        took_s.append(time.thread_time() - began_s)
    return min(took_s) / count * 1e6


def measure_script() -> dict[str, float]:
    """The training loop's side; a thread of this process reads, as the agent would."""

    def plain(link: WorkerLink) -> None:
        for step in range(STEPS):
            link.step(step)

    def measured(link: WorkerLink) -> None:
        for step in range(STEPS):
            with link.work.waiting():
                pass
            link.work.done()
            link.step(step)

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        listener.listen()
        link = WorkerLink(socket_path=f"{folder}/s")
        connection, _ = listener.accept()
        reader = threading.Thread(target=lambda: all(iter(lambda: connection.recv(1 << 20), b"")), daemon=True)
        reader.start()
        found = {
            "step_us": cpu_us(lambda: plain(link), STEPS),
            "step_with_own_work_us": cpu_us(lambda: measured(link), STEPS),
            "step_without_agent_us": cpu_us(lambda: plain(WorkerLink(socket_path=None)), STEPS),
        }
        link.close()
        reader.join()
        connection.close()
    return found


async def measure_agent(seconds: float) -> dict[str, float]:
    """CPU of the agent's part, with real sockets and real processes that report."""
    clock, announcer = SystemClock(), TerminalAnnouncer(Terminal())
    life = new_life()
    outgoing = Outgoing(life.identity, clock, Sink())
    blocks = BlockReports(life, outgoing, clock, announcer)
    files = LocalCheckpointFiles(cwd=Path.cwd())
    checkpoints = CheckpointDiscovery(life, outgoing, clock, announcer, files, level=CheckLevel.NONE)
    relay = WorkerReportRelay(life, outgoing, clock, announcer, blocks, checkpoints)
    handles: dict[int, WorkerHandle] = {}
    server = WorkerSocket(owner_of=handles.get, reports=relay)
    await server.start()
    path, rate = str(server.path), STEPS_PER_S / RANKS
    argv = ["-c", REPORTER, path]
    children = []
    try:
        for rank in range(RANKS):
            child = await asyncio.create_subprocess_exec(
                sys.executable, *argv, str(rank), str(rate), str(seconds), stdin=subprocess.PIPE
            )
            children.append(child)
            handles[child.pid] = handle(rank, child.pid)
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"g")
        async with asyncio.timeout(START_S):
            while steps_of(life) < 10 * RANKS:  # noqa: ASYNC110 - the measured code has no event for it
                await asyncio.sleep(0.05)
        before, step, began_s = time.process_time(), steps_of(life), clock.monotonic_s()
        await asyncio.sleep(seconds / 2)
        used_s, took_s = time.process_time() - before, clock.monotonic_s() - began_s
        done_per_s = (steps_of(life) - step) / took_s
    finally:
        for child in children:
            child.kill()
            await child.wait()
        await server.close()
    return {"agent_steps_per_s": done_per_s, "agent_cpu_share": used_s / took_s / done_per_s * STEPS_PER_S}


def steps_of(life: AgentLife) -> int:
    """Steps reported so far, over all ranks."""
    return 0 if life.progress is None else sum(life.progress.last_steps.values())


def measure_windows() -> dict[str, float]:
    """The collector alone, windows of two seconds included."""

    def run() -> None:
        windows = StepWindows(opened_s=0.0, policy=WindowPolicy())
        for step in range(STEPS // RANKS):
            now_s = step * RANKS / STEPS_PER_S
            for rank in range(RANKS):
                windows.note(LocalRank(rank), step, at_s=now_s, busy_s=0.001, now_s=now_s)

    return {"windows_us": cpu_us(run, STEPS)}


def measure_gang(world_size: int) -> dict[str, float]:
    """One round of a gang: all reports taken in and compared."""
    gang = GangPace(topology_version=1, world_size=world_size, policy=StragglerPolicy())
    rounds = [[report(node, window, world_size) for node in range(world_size // RANKS)] for window in range(6)]

    def run() -> None:
        for reports in rounds:
            for each in reports:
                gang.take(each)

    return {f"gang_of_{world_size}_ms": cpu_us(run, len(rounds), repeat=1) / 1_000}


def new_life() -> AgentLife:
    """A node whose ranks run."""
    identity = AgentIdentity(node_id="n", instance_id="i", job_id="j", address="127.0.0.1", host="h", pid=1)
    program = JobProgram(
        kind=ProgramKind.SCRIPT,
        program="train.py",
        args=(),
        cwd=Path.cwd(),
        role="default",
        base_env={},
        files=lambda version, local_rank: rank_files(Path("logs"), "run", version, local_rank),
        terminal=lambda _local_rank: TerminalCopy(),
    )
    life = AgentLife(identity=identity, spec=JobSpec(nnodes=1, nproc_per_node=RANKS), program=program)
    life.group = WorkerGroup(topology_version=1, first_rank=Rank(0), nproc=RANKS)
    life.progress = Progress(expected=RANKS)
    return life


def handle(rank: int, pid: int) -> WorkerHandle:
    """One process that reports."""
    return WorkerHandle(
        rank=Rank(rank),
        local_rank=LocalRank(rank),
        topology_version=1,
        pid=pid,
        start_ticks=1,
        source=WorkerSource.SPAWN,
        started_at=datetime.now(UTC),
        stacks_on_signal=False,
    )


def report(node: int, window: int, world_size: int) -> StepTimesReported:
    """A node's window, with times that differ from rank to rank."""
    ranks = tuple(
        RankStepTimes(
            rank=node * RANKS + local_rank,
            local_rank=local_rank,
            count=40,
            median_s=0.05,
            spread_s=0.001,
            busy_count=40,
            busy_median_s=0.04 + 0.0001 * ((node * RANKS + local_rank) * 7919 % 17),
            busy_spread_s=0.001,
        )
        for local_rank in range(RANKS)
    )
    return StepTimesReported(
        node_id=f"n{node}",
        instance_id="i",
        job_id="j",
        topology_version=1,
        world_size=world_size,
        window=window,
        first_step=0,
        last_step=39,
        duration_s=2,
        ranks=ranks,
        reported_at=datetime.now(UTC),
    )


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of reporting at 1,000 steps/s")
    parser.add_argument("--out", type=Path, default=Path(".bench/steps.json"))
    arguments = parser.parse_args()
    found = measure_script() | measure_windows() | measure_gang(1_024) | measure_gang(16_384)
    found |= asyncio.run(measure_agent(arguments.seconds))
    print(
        f"script: {found['step_us']:.1f} us of CPU a step, {found['step_with_own_work_us']:.1f} us with own work "
        f"measured, {found['step_without_agent_us']:.2f} us without an agent"
    )
    print(
        f"agent: {found['agent_cpu_share']:.1%} of a core at {STEPS_PER_S:,} steps/s (measured at "
        f"{found['agent_steps_per_s']:,.0f}), of which windows {found['windows_us'] * STEPS_PER_S / 1e6:.2%}"
    )
    print(f"gang: {found['gang_of_1024_ms']:.1f} ms a window of 1,024 ranks, {found['gang_of_16384_ms']:.0f} of 16,384")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
