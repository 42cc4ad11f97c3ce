"""NVML's events through a real child: told when only NVML has them, dropped when the kernel log told the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_nvml_rig import fake_library

from fault_contracts.health import Component
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Health
from node_agent.adapters.nvml_event_source import NvmlEventSource
from node_agent.adapters.overheard import Overheard
from node_agent.application.collector_ports import CollectorFailed, Emit
from node_agent.domain.device_directory import Directory
from node_agent.domain.observation import Observation
from node_agent.domain.xid_witness import XidWitness
from phalanx_cli.drill.fake_library import STATE_VARIABLE
from phalanx_cli.drill.fake_state import ControlFile
from service_kit.clock import SystemClock

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]
GPU1 = "GPU-00000000-0000-4000-8000-000000000001"
WAIT_S = 30.0


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlFile:
    """The control file that children of this test read."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return ControlFile(tmp_path / "state")


@asynccontextmanager
async def watching(
    tmp_path: Path, state: ControlFile, *, held_s: float
) -> AsyncIterator[tuple[NvmlEventSource, "asyncio.Queue[Observation]"]]:
    """A source that has registered: proved by an event of another kind that comes through."""
    directory = Directory()
    directory.learn(DeviceIdentity(kind=DeviceKind.GPU, device_id=GPU1, pci_bus_id="0000:11:00"))
    source = NvmlEventSource(
        directory=directory,
        clock=SystemClock(),
        library=str(fake_library()),
        pci_devices=tmp_path / "no-sysfs",
        witness=XidWitness(held_s),
    )
    told: asyncio.Queue[Observation] = asyncio.Queue()
    running = asyncio.create_task(source.run(told.put_nowait))
    try:
        for seq in range(1, 1_000):
            state.set({"0.event_type": 0x8000, "0.event_seq": seq, "0.recovery_action": 1})
            try:
                wish = await asyncio.wait_for(told.get(), timeout=0.5)
            except TimeoutError:
                assert not running.done(), running
                continue
            assert (wish.check, wish.attributes["recovery_action"], wish.health) == (
                "gpu_recovery_action",
                "gpu_reset",
                Health.BAD,
            )
            break
        while not told.empty():
            told.get_nowait()
        yield source, told
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def kernel_line(code: int) -> Observation:
    """As the kernel log's source tells it before it knows the uuid."""
    return Observation(
        component=Component.GPU,
        component_id="0000:11:00",
        check=f"xid_{code}",
        health=Health.BAD,
        attributes={"pci_bus_id": "0000:11:00"},
        observed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


async def test_an_xid_that_the_kernel_log_does_not_tell_is_told(tmp_path: Path, state: ControlFile) -> None:
    async with watching(tmp_path, state, held_s=0.2) as (_, told):
        state.set({"1.event_data": 94, "1.event_seq": 1})
        xid = await asyncio.wait_for(told.get(), timeout=WAIT_S)
    assert (xid.check, xid.component_id, xid.health, xid.count) == ("xid_94", GPU1, Health.BAD, 1)
    assert xid.attributes == {"xid": "94", "witness": "nvml", "pci_bus_id": "0000:11:00"}


async def test_an_xid_that_the_kernel_log_tells_too_is_told_once(tmp_path: Path, state: ControlFile) -> None:
    async with watching(tmp_path, state, held_s=10.0) as (source, told):
        source.heard(kernel_line(94))
        state.set({"1.event_data": 94, "1.event_seq": 1})
        async with asyncio.timeout(WAIT_S):
            while not source._witness.confirmed:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.05)
        assert source._witness.due(float("inf")) == ()
        assert told.empty()


async def test_no_gpu_ends_the_source_and_a_sick_driver_fails_it(tmp_path: Path, state: ControlFile) -> None:
    options = {"directory": Directory(), "clock": SystemClock(), "pci_devices": tmp_path / "no-sysfs"}
    state.set({"sys.init_err": 9})
    await NvmlEventSource(library=str(fake_library()), **options).run(lambda _: None)
    state.set({"sys.init_err": 18})
    with pytest.raises(CollectorFailed, match="LIB_RM_VERSION_MISMATCH"):
        await NvmlEventSource(library=str(fake_library()), **options).run(lambda _: None)


async def test_what_is_overheard_reaches_both() -> None:
    class Source:
        name = "kmsg"

        async def run(self, emit: Emit) -> None:
            emit(kernel_line(79))

    first: list[Observation] = []
    second: list[Observation] = []
    await Overheard(Source(), first.append).run(second.append)
    assert [one.check for one in first] == [one.check for one in second] == ["xid_79"]
