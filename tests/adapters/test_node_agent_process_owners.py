"""Owners of processes, from a tree like /proc's."""

import os
from pathlib import Path

import pytest

from node_agent.adapters.process_owners import ProcOwners
from node_agent.domain.process_owner import ProcessOwner
from service_kit.clock import SystemClock

CONTAINER = "cd" * 32


def owners(proc: Path, *, same_pids: bool = True) -> ProcOwners:
    return ProcOwners(SystemClock(), proc_root=proc, same_pids=same_pids)


def process(proc: Path, pid: int, *, environ: bytes = b"") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(f"0::/docker/{CONTAINER}\n")
    (folder / "environ").write_bytes(environ)


@pytest.mark.asyncio
async def test_job_and_container(tmp_path: Path) -> None:
    process(tmp_path, 7, environ=b"RANK=3\0PHALANX_JOB_ID=llama\0")
    assert await owners(tmp_path).owner(7) == ProcessOwner(container_id=CONTAINER, job_id="llama", rank="3")


@pytest.mark.asyncio
async def test_a_process_that_is_gone_or_of_other_pids_has_no_owner(tmp_path: Path) -> None:
    process(tmp_path, 7)
    assert await owners(tmp_path).owner(8) == ProcessOwner()
    assert await owners(tmp_path, same_pids=False).owner(7) == ProcessOwner()


@pytest.mark.asyncio
async def test_an_environment_that_hangs_costs_the_job_and_not_the_reader(tmp_path: Path) -> None:
    process(tmp_path, 7)
    (tmp_path / "7" / "environ").unlink()
    os.mkfifo(tmp_path / "7" / "environ")  # opening it waits for a writer that never comes
    assert await owners(tmp_path).owner(7) == ProcessOwner(container_id=CONTAINER)
    os.close(os.open(tmp_path / "7" / "environ", os.O_RDWR))  # lets the thread that was left behind go


@pytest.mark.asyncio
async def test_a_storm_looks_once(tmp_path: Path) -> None:
    process(tmp_path, 7, environ=b"PHALANX_JOB_ID=llama\0")
    known = owners(tmp_path)
    first = await known.owner(7)
    (tmp_path / "7" / "environ").unlink()
    assert await known.owner(7) == first
