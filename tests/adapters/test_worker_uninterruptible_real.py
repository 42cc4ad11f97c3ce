"""A rank in uninterruptible sleep: SIGTERM does nothing, and when SIGKILL does nothing either it is not waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from worker_rig import Rig, alive, gone, rig

from node_agent.adapters import process_sweep
from node_agent.application.ports import WorkerHandle, WorkerSource

pytestmark = pytest.mark.asyncio

IN_VFORK = """
    import os
    os.mkfifo("fifo")
    print("up", flush=True)
    # The child opens a pipe that nobody writes to, before it runs its program; until then its parent sleeps in vfork().
    os.posix_spawn("/bin/true", ["true"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 9, "fifo", os.O_RDONLY, 0)])
"""
DEAF = """
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up", flush=True)
    time.sleep(600)
"""


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def started(r: Rig, text: str) -> WorkerHandle:
    handle = await r.workers.start(r.spec(r.script(text)))
    await r.text_of(r.stdout(), "up")
    return handle


async def test_a_rank_in_state_d_ignores_sigterm_and_ends_with_its_child_after_the_grace(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.SPAWN) as r:
        handle = await started(r, IN_VFORK)
        while state_of(handle.pid) != "D":  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)
        outcome = await r.workers.stop([handle], grace_s=0.3)
        assert outcome.exits[0].signal == 9, "this kind of sleep takes SIGKILL"
        assert outcome.took_s >= 0.3
        assert (outcome.unkillable, outcome.leftover_pids) == ((), ())


async def test_what_survives_sigkill_is_named_and_the_node_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, WorkerSource.SPAWN) as r:
        handle = await started(r, DEAF)
        with monkeypatch.context() as patched:
            # Only a driver or a dead file server makes a process that SIGKILL does not end: the signal is withheld.
            patched.setattr(process_sweep, "send", lambda _pid, _number: True)
            patched.setattr(process_sweep, "DEATH_TIME_S_MAX", 0.3)
            outcome = await r.workers.stop([handle], grace_s=0.1)
        assert outcome.unkillable == (handle,)
        assert outcome.leftover_pids == (handle.pid,)
        assert outcome.exits == ()
        assert alive(handle.pid)
        other = await r.workers.start(r.spec(r.script("print('next', flush=True)", "next.py"), rank=1))
        assert (await r.next_exit()).handle == other
        await r.workers.close()
        assert await gone(handle.pid), "once the sleep ends, the next sweep ends the process"
