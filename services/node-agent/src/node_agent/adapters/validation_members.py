"""The member processes of this node: started, watched, and cleared away with everything they started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from service_kit.logging import get_logger

STOP_S = 5.0
"""For a killed process to be gone; one in uninterruptible sleep (a stuck driver) may take for ever and is left, with
its pid in the log."""
ERROR_TAIL_BYTES = 4_096

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersPlan:
    """Which members this node brings, and where they connect.

    Attributes:
        devices: one for each member: cpu, cuda:0, ...
        first_rank: rank of the first of them.
        drills: local index -> what is wrong with it, on purpose.
    """

    run_id: str
    node_id: str
    node_rank: int
    first_rank: int
    devices: Sequence[str]
    address: str
    port: int
    limit_s: float
    drills: Mapping[int, str]
    log_dir: Path


class Members:
    """Starts one process a device, each in a session of its own, so that its descendants end with it."""

    def __init__(self, plan: MembersPlan, on_exit: Callable[[int, str], Awaitable[None]]) -> None:
        self._plan = plan
        self._on_exit = on_exit
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._watching: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all of them.

        Raises:
            OSError: one cannot be started.
        """
        self._plan.log_dir.mkdir(parents=True, exist_ok=True)
        for index, device in enumerate(self._plan.devices):
            rank = self._plan.first_rank + index
            with self._log_of(rank).open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *self._command(index, device),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    # As torchrun does: several processes with a thread for each core only disturb each other.
                    env={"OMP_NUM_THREADS": "1", **os.environ} if len(self._plan.devices) > 1 else None,
                )
            self._processes[rank] = process
            self._watching.append(asyncio.create_task(self._watch(rank, process)))

    def _log_of(self, rank: int) -> Path:
        return self._plan.log_dir / f"rank-{rank}.log"

    def _command(self, index: int, device: str) -> list[str]:
        plan = self._plan
        told = {
            "run": plan.run_id,
            "node-id": plan.node_id,
            "device": device,
            "address": plan.address,
            "drill": plan.drills.get(index, ""),
            "rank": plan.first_rank + index,
            "node-rank": plan.node_rank,
            "port": plan.port,
            "parent": os.getpid(),
            "limit": plan.limit_s,
        }
        flags = [f"--{name}={value}" for name, value in told.items()]
        return [sys.executable, "-P", "-m", "node_agent.adapters.validation_worker", *flags]

    async def _watch(self, rank: int, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code > 0:
            said = self._last_words(rank)
            how += f": {said}" if said else ""
        await self._on_exit(rank, how)

    def _last_words(self, rank: int) -> str:
        try:
            with self._log_of(rank).open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - ERROR_TAIL_BYTES, 0))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError as error:
            return f"its output cannot be read: {error}"
        return lines[-1][:300] if lines else ""

    async def close(self, *, leave_s: float) -> None:
        """Let those that can leave by themselves, then kill whole sessions."""
        if self._watching:
            await asyncio.wait(self._watching, timeout=leave_s)
        for process in self._processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it left, and so did all it had started
        if self._watching:
            _, stuck = await asyncio.wait(self._watching, timeout=STOP_S)
            for task in stuck:
                task.cancel()
            if stuck:
                pids = [process.pid for process in self._processes.values() if process.returncode is None]
                log.error("members_left_behind", pids=pids)
