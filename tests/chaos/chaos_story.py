"""The story of a wedge: who did what in the last seconds, from the bus, the ranks, the terminals and /proc."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from chaos_ledger import processes_with

from worker_link.process_tree import read_process

if TYPE_CHECKING:
    from chaos_rig import Rig

DUMP_SIGNAL = signal.SIGRTMIN + 9
"""chaos_train.py prints the stacks of its threads to stderr."""
EVENTS_TOLD = 120
LINES_TOLD = 40


async def tell(rig: Rig) -> str:
    """Write it beside the logs, and say where."""
    processes = _processes(rig)
    for lives in rig.ledger.lives.values():
        for pid, started in lives.values():
            row = read_process(pid)
            if row is not None and row.start_ticks == started:
                os.kill(pid, DUMP_SIGNAL)
    await asyncio.sleep(0.5)  # for the dumps; a rank in the kernel gives none
    parts = [
        ("the bus", [f"{at:%H:%M:%S.%f} {_short(event)}" for at, event in rig.bus.seen[-EVENTS_TOLD:]]),
        ("the ranks", [str({k: v for k, v in e.items() if k != "state"}) for e in rig.ledger.events[-EVENTS_TOLD:]]),
        ("processes", processes),
    ]
    parts += [(path.name, _tail(path)) for path in sorted((rig.folder / "nodes").glob("*.log"))]
    parts += [(path.name, _tail(path)) for path in sorted((rig.folder / "stack").rglob("*.log"))]
    parts += [(str(path.relative_to(rig.folder)), _tail(path)) for path in _newest_stderrs(rig.folder)]
    path = rig.folder / "story.txt"
    path.write_text("\n".join(f"== {title}\n" + "\n".join(lines) + "\n" for title, lines in parts))
    last = "\n".join(parts[0][1][-25:])
    return f"the whole story: {path}\nthe last events on the bus:\n{last}"


def _processes(rig: Rig) -> list[str]:
    found = []
    for pid in processes_with(f"CHAOS_FOLDER={rig.folder}"):
        row = read_process(pid)
        if row is None:
            continue
        folder = Path(f"/proc/{pid}")
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[-120:]
            threads = [f"{(t / 'wchan').read_text()}" for t in (folder / "task").iterdir()]
        except OSError:
            continue  # it ended meanwhile
        found.append(f"{pid} parent {row.parent_pid} state {row.state} waits in {threads}: {command}")
    return found


def _short(event: object) -> str:
    return f"{type(event).__name__} {event}"[:600]


def _tail(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()[-LINES_TOLD:]
    except OSError as error:
        return [f"unreadable: {error}"]


def _newest_stderrs(folder: Path) -> list[Path]:
    files = sorted((folder / "nodes").rglob("stderr.log"), key=lambda path: path.stat().st_mtime)
    return files[-12:]
