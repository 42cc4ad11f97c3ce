"""Commands of node actions as real processes: their output, their deadline, and what they leave behind."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_contracts.inventory import DeviceIdentity, DeviceKind
from node_agent.adapters.action_journal import SqliteActionJournal
from node_agent.adapters.device_holders import ProcHolders
from node_agent.adapters.node_commands import OUTPUT_BYTES_MAX, NodeCommands, missing_program
from node_agent.application.node_action_ports import ActionEntry

GPU = DeviceIdentity(kind=DeviceKind.GPU, device_id="GPU-1", pci_bus_id="0000:3b:00", minor=3)


@pytest.mark.asyncio
async def test_output_and_exit_code_come_back() -> None:
    end = await NodeCommands().run(["sh", "-c", "echo out; echo err >&2; exit 3"], limit_s=60)
    assert (end.exit_code, end.output, end.succeeded) == (3, "out\nerr", False)
    assert (await NodeCommands().run(["true"], limit_s=60)).succeeded


@pytest.mark.asyncio
async def test_there_is_no_shell_in_between() -> None:
    assert (await NodeCommands().run(["echo", "$HOME; id"], limit_s=60)).output == "$HOME; id"


@pytest.mark.asyncio
async def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    marker = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ > {marker}; echo begun; wait"
    end = await NodeCommands().run(["sh", "-c", script], limit_s=3.0)
    assert end.exit_code is None
    assert "did not end within 3 s" in end.problem
    assert end.output == "begun"
    for pid in marker.read_text().split():
        await gone(int(pid))


async def gone(pid: int) -> None:
    """Wait for the end of a killed process; its orphan's zombie is somebody else's."""
    async with asyncio.timeout(30):
        while os.path.exists(f"/proc/{pid}/exe") and os.path.islink(f"/proc/{pid}/exe"):  # noqa: ASYNC240 - proc
            try:
                os.readlink(f"/proc/{pid}/exe")
            except OSError:
                return
            await asyncio.sleep(0.05)


@pytest.mark.asyncio
async def test_only_the_end_of_much_output_is_kept() -> None:
    end = await NodeCommands().run([sys.executable, "-c", "print('x' * 10**6); print('last')"], limit_s=60)
    assert len(end.output) <= OUTPUT_BYTES_MAX
    assert end.output.endswith("last")


@pytest.mark.asyncio
async def test_a_program_that_is_not_there_is_told() -> None:
    end = await NodeCommands().run(["/nowhere/nvidia-smi"], limit_s=60)
    assert end.exit_code is None
    assert "cannot be started" in end.problem
    assert "nvidia-smi-of-nowhere" in missing_program(["nvidia-smi-of-nowhere"])
    assert missing_program(["sh"]) == ""


@pytest.mark.asyncio
async def test_a_killed_command_did_not_succeed() -> None:
    end = await NodeCommands().run(["sh", "-c", "kill -9 $$"], limit_s=60)
    assert (end.succeeded, end.problem) == (False, "was killed by SIGKILL")


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a file like /dev/nvidia3 open."""
    device = tmp_path / "dev" / "nvidia3"
    device.parent.mkdir()
    device.touch()
    program = "import sys, time; f = open(sys.argv[1]); print('open', flush=True); time.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-c", program, str(device)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.asyncio
async def test_who_has_the_device_open_is_found_and_nobody_else(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    # Real processes, but only those of the test: what else runs on this machine may not be ours to look into.
    proc = tmp_path / "proc"
    proc.mkdir()
    for pid in (holder.pid, os.getpid()):
        (proc / str(pid)).symlink_to(f"/proc/{pid}")
    holders = ProcHolders(proc_root=proc, dev_root=tmp_path / "dev")
    [found] = await holders.of(GPU)
    assert found.pid == holder.pid
    assert found.name.startswith("python")
    assert await holders.of(GPU.model_copy(update={"minor": 4})) == []
    holder.kill()
    holder.wait()
    assert await holders.of(GPU) == []


@pytest.mark.asyncio
async def test_the_driver_tells_which_device_file_it_is(tmp_path: Path) -> None:
    information = tmp_path / "driver/nvidia/gpus/0000:3b:00.0/information"
    information.parent.mkdir(parents=True)
    information.write_text("Model: \t\t NVIDIA H100\nDevice Minor: \t 3\n")
    (tmp_path / "12/fd").mkdir(parents=True)
    (tmp_path / "12/comm").write_text("python\n")
    (tmp_path / "12/fd/7").symlink_to("/dev/nvidia3")
    unknown_minor = GPU.model_copy(update={"minor": None})
    [found] = await ProcHolders(proc_root=tmp_path, dev_root=Path("/dev")).of(unknown_minor)
    assert (found.pid, str(found)) == (12, "python (pid 12)")
    information.unlink()
    with pytest.raises(OSError, match=r"."):
        await ProcHolders(proc_root=tmp_path, dev_root=Path("/dev")).of(unknown_minor)


def test_the_journal_survives_and_knows_what_is_unfinished(tmp_path: Path) -> None:
    entry = ActionEntry(operation_id="op-1", boot_id="b", instance_id="i", order=b"{}", outcome=None)
    journal = SqliteActionJournal(tmp_path / "orders.db")
    journal.begin(entry)
    journal.close()
    again = SqliteActionJournal(tmp_path / "orders.db")
    assert again.unfinished() == [entry]
    again.finish("op-1", b"done")
    assert again.unfinished() == []
    found = again.find("op-1")
    assert found is not None
    assert found.outcome == b"done"
    assert again.find("op-2") is None
    again.close()


def test_a_file_that_is_no_journal_is_told(tmp_path: Path) -> None:
    (tmp_path / "orders.db").write_text("this is not a database, but it is long enough to look at" * 20)
    with pytest.raises(OSError, match=r"orders\.db"):
        SqliteActionJournal(tmp_path / "orders.db")
