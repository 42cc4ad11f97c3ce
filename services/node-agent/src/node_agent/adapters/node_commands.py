"""application.node_action_ports.MachineCommands: the operator's commands, each with a deadline, and what they print."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence

from node_agent.application.node_action_ports import CommandEnd
from service_kit.foreign_text import printable_lines
from service_kit.logging import get_logger

OUTPUT_BYTES_MAX = 8_192
"""What the report of an action has room for (fault_contracts.payload.LONG_TEXT_MAX)."""
KILL_S = 5.0
"""For a killed command to be gone; in uninterruptible sleep (a stuck driver) it is left, and the answer says so."""

log = get_logger(__name__)


class NodeCommands:
    """Each command in a session of its own, so that what it started ends with it."""

    async def run(self, command: Sequence[str], *, limit_s: float) -> CommandEnd:
        """See the port."""
        log.warning("command_begins", command=list(command), limit_s=limit_s)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return CommandEnd(exit_code=None, problem=f"cannot be started: {error}")
        assert process.stdout is not None, "it was asked for a pipe"
        tail = bytearray()
        reading = asyncio.create_task(_read(process.stdout, tail))
        try:
            async with asyncio.timeout(limit_s):
                code = await process.wait()
            return await self._ended(code, reading, tail)
        except TimeoutError:
            gone = await _kill(process)
            left = "" if gone else f"; pid {process.pid} cannot be killed and is left behind"
            return CommandEnd(exit_code=None, output=_text(tail), problem=f"did not end within {limit_s:g} s{left}")
        finally:
            if process.returncode is None:
                await _kill(process)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _ended(self, code: int, reading: asyncio.Task[None], tail: bytearray) -> CommandEnd:
        # What it left in the background may hold the pipe open: its last words are waited for, not its children.
        await asyncio.wait([reading], timeout=1.0)
        log.warning("command_ended", exit_code=code)
        if code < 0:
            name = signal.Signals(-code).name
            return CommandEnd(exit_code=None, output=_text(tail), problem=f"was killed by {name}")
        return CommandEnd(exit_code=code, output=_text(tail))


def missing_program(command: Sequence[str]) -> str:
    """Why a command cannot be run here; empty when its program is there."""
    return "" if shutil.which(command[0]) else f"its command {command[0]} is not on this machine"


async def _read(stream: asyncio.StreamReader, tail: bytearray) -> None:
    while piece := await stream.read(65_536):
        tail += piece
        del tail[:-OUTPUT_BYTES_MAX]


async def _kill(process: asyncio.subprocess.Process) -> bool:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return True  # it ended in between
    try:
        async with asyncio.timeout(KILL_S):
            await process.wait()
    except TimeoutError:
        log.error("command_left_behind", pid=process.pid)
        return False
    return True


def _text(tail: bytearray) -> str:
    text = tail.decode(errors="replace").strip()
    return printable_lines(text)
