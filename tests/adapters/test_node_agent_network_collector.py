"""The network collector on trees as sysfs has them: links to PCI devices, files that refuse to be read."""

from pathlib import Path

import pytest

from fault_contracts.inventory import DeviceKind
from fault_contracts.payload import Health
from node_agent.adapters.network_collector import NetworkCollector
from node_agent.adapters.nic_sysfs import read_network
from node_agent.application.collector_ports import CollectorFailed
from node_agent.domain.device_directory import Directory
from node_agent.domain.nic_reading import LinkKind
from node_agent.domain.observation import Observation
from service_kit.clock import SystemClock

pytestmark = pytest.mark.timeout(60)


class Sysfs:
    """Builds /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "class").mkdir(parents=True)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        return file

    def pci(self, address: str, *, vendor: str, device: str, code: str = "0x020000") -> Path:
        folder = f"devices/pci0000:00/{address}"
        told = {
            "vendor": vendor,
            "device": device,
            "class": code,
            "subsystem_vendor": vendor,
            "subsystem_device": "0x1",
        }
        for name, text in told.items():
            self.write(f"{folder}/{name}", text)
        bus = self.root / "bus/pci/devices"
        bus.mkdir(parents=True, exist_ok=True)
        (bus / address).symlink_to(self.root / folder)
        return self.root / folder

    def rdma(self, name: str, address: str, *, state: str = "4: ACTIVE", vendor: str = "0x15b3", **files: str) -> Path:
        device = self.pci(address, vendor=vendor, device="0x1021", code="0x020700")
        told = {"node_guid": f"0c42:a103:00a1:{address[5:7]}00", "hca_type": "MT4129", **files}
        for file, text in told.items():
            self.write(f"class/infiniband/{name}/{file}", text)
        port = f"class/infiniband/{name}/ports/1"
        self.write(f"{port}/state", state)
        self.write(f"{port}/phys_state", "5: LinkUp" if "ACTIVE" in state else "2: Polling")
        self.write(f"{port}/rate", "400 Gb/sec (4X NDR)")
        for counter in ("link_downed", "symbol_error", "port_rcv_errors"):
            self.write(f"{port}/counters/{counter}", "0")
        (self.root / f"class/infiniband/{name}/device").symlink_to(device)
        return self.root / port

    def ethernet(self, name: str, *, device: Path | None, mac: str = "aa:bb:cc:00:00:01") -> Path:
        told = {"address": mac, "type": "1", "flags": "0x1003", "operstate": "up", "carrier": "1"}
        for file, text in {**told, "carrier_changes": "1", "speed": "25000", "statistics/rx_crc_errors": "0"}.items():
            self.write(f"class/net/{name}/{file}", text)
        if device is not None:
            (self.root / f"class/net/{name}/device").symlink_to(device)
        return self.root / f"class/net/{name}"


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path / "sys")


def collector(sysfs: Sysfs, directory: Directory | None = None, expected: int | None = None) -> NetworkCollector:
    return NetworkCollector(
        sys_root=sysfs.root,
        interval_s=1.0,
        expected=expected,
        directory=directory or Directory(),
        clock=SystemClock(),
    )


def healths(told: list[Observation] | tuple[Observation, ...], check: str) -> dict[str, Health]:
    return {one.attributes.get("name", ""): one.health for one in told if one.check == check}


@pytest.mark.asyncio
async def test_an_infiniband_port_is_read_and_its_loss_is_seen(sysfs: Sysfs) -> None:
    port = sysfs.rdma("mlx5_0", "0000:5e:00.0")
    sysfs.rdma("mlx5_1", "0000:60:00.0")
    directory = Directory()
    looking = collector(sysfs, directory, expected=2)
    told = list(await looking.collect())
    assert healths(told, "nic_link") == {"mlx5_0/1": Health.OK, "mlx5_1/1": Health.OK}
    assert healths(told, "nic_count") == {"": Health.OK}
    (port / "state").write_text("1: DOWN\n")
    (port / "counters/symbol_error").write_text("100000\n")
    told = list(await looking.collect())
    assert healths(told, "nic_link") == {"mlx5_0/1": Health.BAD, "mlx5_1/1": Health.OK}
    assert healths(told, "nic_errors")["mlx5_0/1"] is Health.BAD
    known = directory.at_pci("0000:5e:00")
    assert known is not None
    assert (known.kind, known.device_id, known.name) == (DeviceKind.NIC, "0c42:a103:00a1:5e00", "mlx5_0")
    assert known.pci_vendor_data == "15b3:1021:15b3:1"


@pytest.mark.asyncio
async def test_an_adapter_that_vanished_is_counted(sysfs: Sysfs) -> None:
    sysfs.rdma("mlx5_0", "0000:5e:00.0")
    sysfs.rdma("mlx5_1", "0000:60:00.0")
    looking = collector(sysfs)
    await looking.collect()
    (sysfs.root / "class/infiniband/mlx5_1").rename(sysfs.root / "gone")
    (count,) = [one for one in await looking.collect() if one.check == "nic_count"]
    assert count.health is Health.BAD
    assert "gone: mlx5_1" in count.detail
    assert "no driver has taken 0000:60:00" in count.detail


def test_efa_is_an_rdma_adapter_and_one_without_driver_is_named(sysfs: Sysfs) -> None:
    sysfs.rdma("rdmap16s27", "0000:10:1b.0", vendor="0x1d0f", node_guid="0000:0000:0000:0000")
    sysfs.pci("0000:20:1b.0", vendor="0x1d0f", device="0xefa2")
    reading = read_network(sysfs.root)
    (link,) = reading.links
    assert (link.kind, link.device_id, link.component_id) == (LinkKind.RDMA, "", "rdmap16s27/1")
    assert reading.driverless == ("0000:20:1b",)


def test_only_physical_ethernet_interfaces_are_read(sysfs: Sysfs) -> None:
    card = sysfs.pci("0000:03:00.0", vendor="0x8086", device="0x1592")
    sysfs.ethernet("eth0", device=card)
    sysfs.ethernet("docker0", device=None)
    virtual = sysfs.pci("0000:03:10.0", vendor="0x8086", device="0x1889")
    (virtual / "physfn").symlink_to(card)
    sysfs.ethernet("eth9", device=virtual)
    wireless = sysfs.ethernet("wlan0", device=card)
    (wireless / "wireless").mkdir()
    (sysfs.ethernet("ib0", device=card) / "type").write_text("32\n")
    slave = sysfs.ethernet("eth1", device=card, mac="aa:bb:cc:00:00:01")
    sysfs.write("class/net/eth1/bonding_slave/perm_hwaddr", "aa:bb:cc:00:00:02")
    assert slave.exists()
    links = {link.name: link for link in read_network(sysfs.root).links}
    assert sorted(links) == ["eth0", "eth1"]
    eth0 = links["eth0"]
    assert (eth0.up, eth0.gbps, eth0.downs, eth0.pci_bus_id) == (True, 25.0, 0, "0000:03:00")
    assert links["eth1"].device_id == "aa:bb:cc:00:00:02"


def test_an_interface_that_is_off_refuses_to_tell_its_carrier(sysfs: Sysfs) -> None:
    card = sysfs.pci("0000:03:00.0", vendor="0x8086", device="0x1592")
    eth0 = sysfs.ethernet("eth0", device=card)
    (eth0 / "flags").write_text("0x1002\n")
    for refused in ("carrier", "speed"):  # the kernel has the file and answers EINVAL; a folder is refused as well
        (eth0 / refused).unlink()
        (eth0 / refused).mkdir()
    (link,) = read_network(sysfs.root).links
    assert (link.wanted, link.up, link.gbps) == (False, None, None)


@pytest.mark.asyncio
async def test_no_sysfs_is_a_failure_with_a_remedy_and_an_empty_one_is_nothing(tmp_path: Path) -> None:
    missing = NetworkCollector(
        sys_root=tmp_path / "none", interval_s=1, expected=None, directory=Directory(), clock=SystemClock()
    )
    with pytest.raises(CollectorFailed, match="PHALANX_SYS_ROOT"):
        await missing.collect()
    assert list(await collector(Sysfs(tmp_path / "empty")).collect()) == []
