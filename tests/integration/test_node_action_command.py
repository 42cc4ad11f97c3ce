"""`phalanx node-action` against a real host role on a real bus: done, shown, refused, failed, and nobody there."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from action_place import UUID, Place

from phalanx_cli.drill.fake_library import STATE_VARIABLE, NoCompiler, build
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.jetstream.connection import connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
READY = "host_watches"


@pytest.fixture
def place(tmp_path: Path, nats_server: NatsServer, unique_name: str) -> Place:
    settings = BusSettings(nats_url=nats_server.url, cluster=unique_name)

    async def prepare() -> None:
        connection = await connect(settings, name="test")
        await ensure_streams(connection, settings)
        await connection.close()

    asyncio.run(prepare())
    return Place(tmp_path, nats_server.url, unique_name)


@pytest.fixture
def holder(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the GPU's device file open, where the host role looks."""
    program = "import sys, time; f = open(sys.argv[1]); print('open', flush=True); time.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-c", program, str(place.path / "dev/nvidia3")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    (place.proc / str(process.pid)).symlink_to(f"/proc/{process.pid}")
    yield process
    process.kill()
    process.wait()


@pytest.mark.asyncio
async def test_a_gpu_is_reset_only_when_nobody_holds_it(place: Place, holder: Any) -> None:
    resets = place.path / "resets"
    async with place.host() as host:
        await host.wait_line(READY)
        code, text = await place.ordered("reset-gpu", "--gpu", UUID, "--dry-run")
        assert code == 0, text
        assert "echo reset 0000:3b:00" in text
        code, text = await place.ordered("reset-gpu", "--gpu", UUID)
        assert code == 4, text
        assert f"(pid {holder.pid})" in text
        assert not resets.exists()
        holder.kill()
        holder.wait()
        # NVML is off here, so nobody can look at the GPU afterwards: that is said, and is no success.
        code, text = await place.ordered("reset-gpu", "--gpu", UUID, "--by", "alice", "--reason", "a drill")
        assert code == 1, text
        assert "is not verified" in text
        assert resets.read_text() == "reset 0000:3b:00\n"


@pytest.mark.asyncio
async def test_refusals_say_why(place: Place) -> None:
    async with place.host() as host:
        await host.wait_line(READY)
        code, text = await place.ordered("reboot")
        assert code == 4, text
        assert "PHALANX_NODE_ACTIONS" in text or "not on this machine" in text
        code, text = await place.ordered("reset-gpu", "--gpu", "GPU-of-nobody")
        assert code == 4, text
        assert UUID in text
    code, text = await place.ordered("validate", node="node-nobody")
    assert code == 3, text
    assert "nothing was ordered" in text


@pytest.mark.asyncio
async def test_a_validation_by_order_reports_what_it_found(place: Place) -> None:
    async with place.host() as host:
        await host.wait_line(READY)
        code, text = await place.ordered("validate", "--json")
    # No ledger is kept here: that cannot be told, so the node is not validated; its device is good.
    assert code == 1, text
    assert "validation.unknown_check" in text
    assert "matmul_float32" in text
    assert "ledger" in text


@pytest.mark.asyncio
async def test_an_agent_killed_in_the_middle_tells_it_when_it_is_back(place: Place) -> None:
    async with place.host() as host:
        await host.wait_line(READY)
        async with place.order("drain") as ordering:
            await host.wait_line("command_begins")
            os.kill(host.pid, 9)
            await host.exit_code()
            async with place.host() as again:
                await again.wait_line(READY)
                assert await ordering.exit_code() == 1, ordering.text
                assert "how far it came is unknown" in ordering.text


@pytest.mark.asyncio
async def test_a_reset_is_done_when_fresh_looks_at_the_gpu_are_good(place: Place) -> None:
    """With the real NVML bindings on the fake driver library: the agent lets go, looks again, and says so."""
    try:
        library = build(place.path)
    except NoCompiler as error:
        pytest.skip(str(error))
    gpu = "GPU-00000000-0000-4000-8000-000000000000"
    place.env |= {
        "PHALANX_NVML": "on",
        "PHALANX_NVML_LIBRARY": str(library),
        STATE_VARIABLE: str(place.path / "state"),
        "PHALANX_SWEEP": "1",
        "PHALANX_VERIFY_LIMIT": "150",
        "PHALANX_RESET_COMMAND": f"sh -c 'echo {{uuid}} {{minor}} >> {place.path}/resets'",
    }
    async with place.host() as host:
        await host.wait_line(READY)
        code, text = await place.ordered("reset-gpu", "--gpu", gpu)
    assert code == 0, text
    assert "fresh looks find nothing bad" in text
    assert (place.path / "resets").read_text() == f"{gpu} 0\n"
