"""Devices of a machine, read from trees that look like sysfs and proc."""

import json
from pathlib import Path

import pytest

from fault_contracts.payload import Health
from node_agent.adapters.local_devices import DevicesCheck, read_expected, served_gpus
from node_agent.domain.validation_topology import ExpectedDevices

UUID = "GPU-11111111-2222-3333-4444-555555555555"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two GPUs, one of them lost by the driver; a network card; two RDMA adapters."""
    pci = tmp_path / "sys/bus/pci/devices"
    for address, vendor, kind in (
        ("0000:1b:00.0", "0x10de", "0x030200"),
        ("0000:3b:00.0", "0x10de", "0x030200"),
        ("0000:3b:00.1", "0x10de", "0x040300"),
        ("0000:5e:00.0", "0x15b3", "0x020700"),
    ):
        write(pci / address / "vendor", vendor)
        write(pci / address / "class", kind)
    for name in ("mlx5_0", "mlx5_1"):
        (tmp_path / "sys/class/infiniband" / name).mkdir(parents=True)
    information = (
        "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 100\nGPU UUID: \t GPU-11111111-2222-3333-4444-555555555555"
    )
    write(tmp_path / "proc/driver/nvidia/gpus/0000:1b:00.0/information", information)
    return tmp_path


async def health(machine: Path, expected: ExpectedDevices) -> dict[str, Health]:
    check = DevicesCheck(expected, sys_root=machine / "sys", proc_root=machine / "proc", limit_s=30)
    return {line.check: line.health for line in await check.run()}


@pytest.mark.asyncio
async def test_a_lost_gpu_and_the_adapters_are_seen(machine: Path) -> None:
    expected = ExpectedDevices(gpus=2, nics=2)
    wanted = {"gpu_driver": Health.BAD, "gpu_count": Health.BAD, "nic_count": Health.OK}
    assert await health(machine, expected) == wanted


@pytest.mark.asyncio
async def test_names_come_from_the_driver(machine: Path) -> None:
    assert await served_gpus(machine / "proc", limit_s=30) == {"0000:1b:00": UUID}


@pytest.mark.asyncio
async def test_a_machine_without_any_is_as_expected_when_none_is(tmp_path: Path) -> None:
    wanted = {"gpu_count": Health.OK, "nic_count": Health.OK}
    assert await health(tmp_path, ExpectedDevices(gpus=0, nics=0)) == wanted


def test_an_expectation_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "expect.json"
    file.write_text(json.dumps({"gpus": 8, "gpu_pci": ["00000000:1B:00.0"], "gpu_uuids": ["GPU-1"]}))
    assert read_expected(file) == ExpectedDevices(
        gpus=8, gpu_pci=frozenset({"0000:1b:00"}), gpu_uuids=frozenset({"GPU-1"})
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"gpu": 8}', '{"gpus": "8"}', '{"gpus": -1}', '{"gpu_pci": ["here"]}'])
def test_a_wrong_expectation_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "expect.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r".+"):
        read_expected(file)
