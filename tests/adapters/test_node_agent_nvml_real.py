"""The NVML collector with real children, the real nvidia-ml-py and the fake library: every way to be sick."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fake_nvml_rig import fake_library

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.adapters.nvml_collector import NvmlCollector, NvmlLimits
from node_agent.adapters.nvml_process import Children
from node_agent.adapters.nvml_rounds import RoundLimits
from node_agent.application.collector_ports import CollectorFailed
from node_agent.domain.device_directory import Directory
from node_agent.domain.gpu_health import Expected
from node_agent.domain.observation import Observation
from phalanx_cli.drill.fake_library import STATE_VARIABLE
from phalanx_cli.drill.fake_state import ControlFile
from service_kit.clock import SystemClock

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]
BAD, OK = Health.BAD, Health.OK
GPU = "GPU-00000000-0000-4000-8000-{:012d}".format
SHORT = RoundLimits(first_answer_s=20.0, gpu_s=1.0, look_s=60.0, hung_again_s=300.0)
"""One second for a GPU: a busy machine may stop a process that long, but not that often."""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlFile:
    """The control file that children of this test read."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return ControlFile(tmp_path / "state")


@asynccontextmanager
async def collecting(
    tmp_path: Path, *, old_driver: bool = False, library: str | None = None, **options: object
) -> AsyncIterator[NvmlCollector]:
    """A collector whose every look is a full one."""
    rounds = options.pop("rounds", RoundLimits())
    assert isinstance(rounds, RoundLimits)
    collector = NvmlCollector(
        directory=options.pop("directory", Directory()),  # type: ignore[arg-type]
        clock=SystemClock(),
        library=str(fake_library(old_driver=old_driver)) if library is None else library,
        pci_devices=options.pop("pci_devices", tmp_path / "no-sysfs"),  # type: ignore[arg-type]
        limits=NvmlLimits(whole_every_s=0.0, rounds=rounds),
        **options,  # type: ignore[arg-type]
    )
    try:
        yield collector
    finally:
        await collector.close()


def not_ok(told: Iterable[Observation]) -> dict[tuple[str, str], Health]:
    return {(one.component_id, one.check): one.health for one in told if one.health is not OK}


def checks(told: Iterable[Observation]) -> set[str]:
    return {one.check for one in told}


def pci_tree(tmp_path: Path, **gpus: str) -> Path:
    """sysfs with devices by address (dots for colons): each a class, e.g. 0x030200."""
    for address, kind in gpus.items():
        device = tmp_path / "pci" / address.replace("_", ":")
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text(f"{kind}\n")
    return tmp_path / "pci"


async def test_eight_gpus_are_known_and_healthy(tmp_path: Path, state: ControlFile) -> None:
    directory = Directory()
    async with collecting(tmp_path, directory=directory) as collector:
        told = await collector.collect()
    assert not_ok(told) == {}
    devices = directory.all()
    assert [device.device_id for device in devices] == [GPU(index) for index in range(8)]
    assert devices[3].pci_bus_id == "0000:13:00"
    assert (devices[3].board_serial, devices[3].pci_vendor_data) == ("1650000000003", "10de:2330:10de:16c1")
    assert (devices[3].index, devices[3].minor, devices[3].name) == (3, 3, "Fake H100 80GB HBM3")
    assert collector.driver_version == "580.65.06"


async def test_what_breaks_is_seen_at_the_next_look(tmp_path: Path, state: ControlFile) -> None:
    async with collecting(tmp_path) as collector:
        await collector.collect()
        state.set({"1.remap_pending": 1, "1.recovery_action": 1, "2.temperature": 91, "3.nvlink5_down": 1})
        state.set(
            {"4.ecc_volatile_uncorrected": 2, "5.pcie_width": 8, "6.clock_reasons": "0x48", "7.sram_threshold": 1}
        )
        told = await collector.collect()
        state.clear()
        healed = await collector.collect()
    assert not_ok(told) == {
        (GPU(1), "gpu_row_remap_pending"): BAD,
        (GPU(1), "gpu_recovery_action"): BAD,
        (GPU(2), "gpu_temperature"): BAD,
        (GPU(3), "nvlink_state"): BAD,
        (f"{GPU(3)}/nvlink5", "nvlink_link"): BAD,
        (GPU(4), "gpu_ecc_uncorrected"): BAD,
        (GPU(5), "gpu_pcie_width"): BAD,
        (GPU(6), "gpu_hw_thermal"): BAD,
        (GPU(7), "gpu_sram_threshold"): BAD,
    }
    assert not_ok(healed) == {}


async def test_a_lost_gpu_keeps_its_name_also_for_a_new_child(tmp_path: Path, state: ControlFile) -> None:
    async with collecting(tmp_path) as collector:
        await collector.collect()
        state.set({"3.lost": 1})
        first = await collector.collect()
        assert collector.child_pid is not None
        os.kill(collector.child_pid, signal.SIGKILL)
        second = await collector.collect()
    assert not_ok(first) == not_ok(second) == {(GPU(3), "gpu_lost"): BAD}


async def test_a_gpu_that_went_from_the_list_is_lost_and_the_count_says_so(tmp_path: Path, state: ControlFile) -> None:
    async with collecting(tmp_path) as collector:
        await collector.collect()
        state.set({"sys.count": 7})
        assert not_ok(await collector.collect()) == {(GPU(7), "gpu_lost"): BAD, ("", "gpu_count"): BAD}


async def test_a_hanging_gpu_costs_the_child_and_the_others_are_read(tmp_path: Path, state: ControlFile) -> None:
    limits = RoundLimits(first_answer_s=20.0, gpu_s=1.0, look_s=60.0, hung_again_s=0.0)
    async with collecting(tmp_path, rounds=limits) as collector:
        await collector.collect()
        before = collector.child_pid
        state.set({"2.slow_ms.nvmlDeviceGetTemperature": 600_000, "5.temperature": 95})
        told = await collector.collect()
        assert collector.child_pid != before
        state.clear()
        healed = await collector.collect()
    assert not_ok(told) == {(GPU(2), "nvml_hang"): BAD, (GPU(5), "gpu_temperature"): BAD}
    assert {one.component_id for one in told if one.check == "gpu_power"} == {GPU(n) for n in range(8) if n != 2}
    assert not_ok(healed) == {}
    assert (GPU(2), "nvml_hang") in {(one.component_id, one.check) for one in healed}


async def test_a_gpu_that_cannot_even_be_opened_is_left_out_by_its_place(tmp_path: Path, state: ControlFile) -> None:
    state.set({"2.slow_ms": 600_000})
    async with collecting(tmp_path, rounds=SHORT) as collector:
        told = await collector.collect()
        again = await collector.collect()
    assert not_ok(told) == not_ok(again) == {("gpu2", "nvml_hang"): BAD}
    assert len({one.component_id for one in told if one.check == "gpu_power"}) == 7


async def test_a_driver_that_does_not_answer_at_all_is_told_and_left_alone(tmp_path: Path, state: ControlFile) -> None:
    state.set({"sys.slow_ms.nvmlInitWithFlags": 600_000})
    limits = RoundLimits(first_answer_s=1.0, look_s=30.0, hung_again_s=300.0)
    async with collecting(tmp_path, rounds=limits) as collector:
        told = await collector.collect()
        assert collector.child_pid is None
        again = await collector.collect()
        assert collector.child_pid is None, "not asked again so soon"
    assert not_ok(told) == not_ok(again) == {("", "nvml_hang"): BAD}
    assert told[0].component is Component.DRIVER


async def test_no_third_child_is_started_when_two_cannot_be_killed(
    tmp_path: Path, state: ControlFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = Children()
    limits = RoundLimits(first_answer_s=20.0, gpu_s=1.0, look_s=60.0, hung_again_s=0.0)
    state.set({"2.slow_ms": 600_000})
    # SIGKILL does not reach a process that waits in a driver; here, nothing reaches it.
    monkeypatch.setattr("subprocess.Popen.kill", lambda self: None)
    async with collecting(tmp_path, rounds=limits, children=children) as collector:
        left = list(children._left)
        while children.may_start:
            told = await collector.collect()
            left = list(children._left)
        full = await collector.collect()
        monkeypatch.undo()
        monkeypatch.setenv(STATE_VARIABLE, str(state.path))
        assert children.left == len(left) == 2
        assert any("2 reading processes hang" in one.detail for one in told)
        assert [(one.check, one.health, one.values["children_left"]) for one in full] == [("nvml_hang", BAD, 2)]
        state.clear()
        for child in left:
            child.kill()
            child.wait(timeout=30)
        assert not_ok(await collector.collect()) == {}, "room again"


async def test_an_old_driver_is_silent_about_what_it_cannot_tell(tmp_path: Path, state: ControlFile) -> None:
    async with collecting(tmp_path) as new, collecting(tmp_path, old_driver=True) as old:
        everything, told = await new.collect(), await old.collect()
    assert not_ok(told) == {}
    assert checks(everything) - checks(told) == {
        "gpu_row_remap_pending",
        "gpu_row_remap_failure",
        "gpu_row_remap_banks",
        "gpu_sram_threshold",
        "gpu_recovery_action",
        "gpu_fabric",
    }


async def test_a_mismatch_is_of_the_driver_and_ends_with_a_new_child(tmp_path: Path, state: ControlFile) -> None:
    async with collecting(tmp_path) as collector:
        state.set({"sys.init_err": 18})
        told = await collector.collect()
        state.clear()
        healed = await collector.collect()
    assert not_ok(told) == {("", "driver_mismatch"): BAD}
    assert told[0].component is Component.DRIVER
    assert {one.identity for one in told} <= {one.identity for one in healed}
    assert not_ok(healed) == {}


async def test_mig_is_told_and_what_it_takes_away_is_not_missed(tmp_path: Path, state: ControlFile) -> None:
    state.set({"0.mig": 1, "0.mig_instances": 3})
    async with collecting(tmp_path) as collector:
        told = await collector.collect()
    assert not_ok(told) == {}
    of_first = {one.check: one for one in told if one.component_id == GPU(0)}
    assert of_first["gpu_mig"].values["instances"] == 3
    assert of_first["gpu_mig"].attributes["instances"].startswith("7/0 MIG-")
    assert "gpu_row_remap_pending" not in of_first


@pytest.mark.parametrize("code", [0, 9])
async def test_a_machine_without_a_gpu_says_nothing_and_runs_no_child(
    tmp_path: Path, state: ControlFile, code: int
) -> None:
    state.set({"sys.init_err": code})
    async with collecting(tmp_path, library="/nowhere/libnvidia-ml.so.1" if not code else None) as collector:
        assert await collector.collect() == []
        assert collector.child_pid is None
        assert await collector.collect() == ()


async def test_a_gpu_on_the_bus_without_a_driver_is_a_finding(tmp_path: Path, state: ControlFile) -> None:
    tree = pci_tree(tmp_path, **{"0000_3b_00.0": "0x030200", "0000_3b_00.1": "0x040300", "0000_5e_00.0": "0x030000"})
    state.set({"sys.init_err": 9})
    async with collecting(tmp_path, pci_devices=tree) as collector:
        [told] = await collector.collect()
        assert (told.check, told.health) == ("gpu_driver", BAD)
        assert told.detail == "2 NVIDIA GPUs on the PCI bus, and the NVIDIA driver is not loaded"
        assert told.attributes["gpus_on_bus"] == "0000:3b:00,0000:5e:00"
        state.set({"sys.init_err": 0, "sys.count": 1})
        loaded = await collector.collect()
    assert not_ok(loaded) == {("", "gpu_count"): BAD}, "two on the bus, one with the driver"


async def test_a_machine_that_should_have_gpus_is_not_silent_without(tmp_path: Path, state: ControlFile) -> None:
    state.set({"sys.init_err": 9})
    async with collecting(tmp_path, expected=Expected(gpus=8)) as collector:
        assert not_ok(await collector.collect()) == {("", "gpu_driver"): BAD}


async def test_a_cancelled_look_leaves_no_child_behind(tmp_path: Path, state: ControlFile) -> None:
    state.set({"0.slow_ms": 600_000})
    async with collecting(tmp_path) as collector:
        look = asyncio.create_task(collector.collect())
        while collector.child_pid is None:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
        pid = collector.child_pid
        look.cancel()
        with pytest.raises(asyncio.CancelledError):
            await look
        assert collector.child_pid is None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_child_that_dies_in_a_look_is_said_and_the_next_look_works(tmp_path: Path, state: ControlFile) -> None:
    state.set({"0.slow_ms": 600_000})
    async with collecting(tmp_path) as collector:
        look = asyncio.create_task(collector.collect())
        while collector.child_pid is None:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
        os.kill(collector.child_pid, signal.SIGKILL)
        with pytest.raises(CollectorFailed, match="ended by signal 9"):
            await look
        state.clear()
        assert not_ok(await collector.collect()) == {}
