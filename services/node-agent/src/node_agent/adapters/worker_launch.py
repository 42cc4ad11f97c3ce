"""Turns a WorkerSpec into a running process: environment, output, then the nursery or a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from pathlib import Path

from node_agent.adapters.nursery import NurseryClient, NurseryError
from node_agent.adapters.output_pump import OutputPump
from node_agent.adapters.process_sweep import MARKER_VARIABLE
from node_agent.adapters.spawn import spawn_worker
from node_agent.adapters.standby import Standby
from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_output import RankOutput
from node_agent.adapters.worker_record import WorkerRecord
from node_agent.application.output_tap import OutputPlace, OutputTap
from node_agent.application.ports import ProgramKind, WorkerHandle, WorkerSource, WorkerSpec, WorkerStartError
from service_kit.ports import Clock
from worker_link.process_tree import read_process


class WorkerLaunch:
    """Starts workers; knows nothing of their end."""

    def __init__(self, *, clock: Clock, terminal: Terminal, python: str, worker_socket: Path | None) -> None:
        self._clock = clock
        self._terminal = terminal
        self._python = python
        self._worker_socket = worker_socket
        self._serial = count(1)
        self._shared_pump: OutputPump | None = None
        self.tap: OutputTap | None = None
        """Who gets a copy of the output."""

    async def start(self, spec: WorkerSpec, standby: Standby | None) -> WorkerRecord:
        """Start one worker.

        Raises:
            WorkerStartError: no such script or folder, log folder not writable, interpreter missing.
        """
        check_program(spec)
        marker = f"{os.getpid()}.{spec.rank}.{spec.topology_version}.{next(self._serial)}"
        env = {**spec.env, MARKER_VARIABLE: marker}
        env.setdefault("TORCHELASTIC_ERROR_FILE", str(spec.files.error))
        if self._worker_socket is not None:
            env.setdefault("PHALANX_WORKER_SOCKET", str(self._worker_socket))
        # Of an earlier run with the same id: it must not be taken for this worker's.
        spec.files.error.unlink(missing_ok=True)
        place = OutputPlace(topology_version=spec.topology_version, rank=spec.rank, local_rank=spec.local_rank)
        output = RankOutput(place, spec.files, spec.terminal, self._terminal, self.tap, self._pump())
        stacks_fd = output.open_stacks()
        try:
            record = await self._start(spec, env, output, marker, stacks_fd, standby)
        except BaseException:
            output.close()
            raise
        finally:
            os.close(stacks_fd)
        output.started()
        return record

    def _pump(self) -> OutputPump:
        """One for all workers; made when there is a loop."""
        if self._shared_pump is None:
            self._shared_pump = OutputPump()
        return self._shared_pump

    async def _start(
        self,
        spec: WorkerSpec,
        env: dict[str, str],
        output: RankOutput,
        marker: str,
        stacks_fd: int,
        standby: Standby | None,
    ) -> WorkerRecord:
        popen: subprocess.Popen[bytes] | None = None
        forked: tuple[int, int] | None = None
        client = await standby.client() if standby is not None else None
        if client is not None:
            forked = await self._fork(client, spec, env, output, stacks_fd)
        if forked is not None:
            pid, start_ticks = forked
        else:
            popen = spawn_worker(
                spec,
                env,
                python=self._python,
                stdout_fd=output.stdout.write_fd,
                stderr_fd=output.stderr.write_fd,
                stacks_fd=stacks_fd,
            )
            pid = popen.pid
            row = read_process(pid)
            start_ticks = row.start_ticks if row is not None else 0
        handle = WorkerHandle(
            rank=spec.rank,
            local_rank=spec.local_rank,
            topology_version=spec.topology_version,
            pid=pid,
            start_ticks=start_ticks,
            source=WorkerSource.SPAWN if popen is not None else WorkerSource.NURSERY,
            started_at=self._clock.now(),
            stacks_on_signal=spec.kind is not ProgramKind.EXECUTABLE,
        )
        return WorkerRecord(
            handle=handle,
            spec=spec,
            output=output,
            marker=marker,
            popen=popen,
            pidfd=None,
            started_monotonic_s=self._clock.monotonic_s(),
        )

    async def _fork(
        self, client: NurseryClient, spec: WorkerSpec, env: dict[str, str], output: RankOutput, stacks_fd: int
    ) -> tuple[int, int] | None:
        order = {
            "kind": spec.kind.value,
            "program": spec.program,
            "args": list(spec.args),
            "env": env,
            "cwd": str(spec.cwd),
            "name": f"phx-rank{spec.rank}",
        }
        stdin_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return await client.fork(order, [stdin_fd, output.stdout.write_fd, output.stderr.write_fd, stacks_fd])
        except NurseryError as error:
            self._terminal.notice(f"rank {spec.rank} is spawned, which is slower: the nursery cannot serve ({error})")
            return None
        finally:
            os.close(stdin_fd)


def check_program(spec: WorkerSpec) -> None:
    """Refuse what cannot run, with a sentence for the user.

    Raises:
        WorkerStartError: no such script or folder.
    """
    if not spec.cwd.is_dir():
        raise WorkerStartError(f"working folder {spec.cwd} does not exist")
    if spec.kind is ProgramKind.SCRIPT:
        path = spec.cwd / spec.program
        if not path.exists():
            raise WorkerStartError(f"script {spec.program} does not exist (looked for {path})")
        if not os.access(path, os.R_OK):
            raise WorkerStartError(f"script {path} cannot be read")
