"""What several witnesses know of a device comes together; an address has one owner."""

from __future__ import annotations

from fault_contracts.inventory import DeviceIdentity, DeviceKind
from node_agent.domain.device_directory import DEVICES_MAX, Directory


def gpu(uuid: str, **known: object) -> DeviceIdentity:
    return DeviceIdentity.model_validate({"kind": DeviceKind.GPU, "device_id": uuid, **known})


def test_witnesses_add_up_and_empty_fields_erase_nothing() -> None:
    directory = Directory()
    directory.learn(gpu("GPU-1", pci_bus_id="0000:3b:00"))
    directory.learn(gpu("GPU-1", board_serial="165", index=0, pci_bus_id="00000000:3B:00.0", name="H100"))
    directory.learn(gpu("GPU-1"))
    (known,) = directory.all()
    assert (known.board_serial, known.index, known.name, known.pci_bus_id) == ("165", 0, "H100", "0000:3b:00")


def test_found_by_any_spelling_of_its_address() -> None:
    directory = Directory()
    directory.learn(gpu("GPU-1", pci_bus_id="00000000:3B:00.0"))
    for spelling in ("0000:3b:00", "3b:00.0", "PCI:0000:3B:00"):
        found = directory.at_pci(spelling)
        assert found is not None
        assert found.device_id == "GPU-1"
    assert directory.at_pci("0000:3c:00") is None
    assert directory.at_pci("nonsense") is None


def test_a_new_gpu_at_an_address_takes_it_over_and_inherits_nothing() -> None:
    directory = Directory()
    directory.learn(gpu("GPU-old", pci_bus_id="0000:3b:00", board_serial="1"))
    directory.learn(gpu("GPU-new", pci_bus_id="0000:3b:00"))
    found = directory.at_pci("0000:3b:00")
    assert found is not None
    assert (found.device_id, found.board_serial) == ("GPU-new", "")
    assert [device.device_id for device in directory.all()] == ["GPU-new"]


def test_a_device_that_moves_leaves_its_address() -> None:
    directory = Directory()
    directory.learn(gpu("GPU-1", pci_bus_id="0000:3b:00"))
    directory.learn(gpu("GPU-1", pci_bus_id="0000:5e:00"))
    assert directory.at_pci("0000:3b:00") is None
    moved = directory.at_pci("0000:5e:00")
    assert moved is not None
    assert moved.device_id == "GPU-1"


def test_two_gpus_that_change_places_are_both_known() -> None:
    directory = Directory()
    directory.learn(gpu("GPU-1", pci_bus_id="0000:3b:00"))
    directory.learn(gpu("GPU-2", pci_bus_id="0000:5e:00"))
    directory.learn(gpu("GPU-1", pci_bus_id="0000:5e:00"))
    directory.learn(gpu("GPU-2", pci_bus_id="0000:3b:00"))
    assert {device.device_id: device.pci_bus_id for device in directory.all()} == {
        "GPU-1": "0000:5e:00",
        "GPU-2": "0000:3b:00",
    }


def test_the_version_grows_only_with_news() -> None:
    directory = Directory()
    directory.learn(gpu("GPU-1", pci_bus_id="0000:3b:00"))
    version = directory.version
    directory.learn(gpu("GPU-1", pci_bus_id="3B:00.0"))
    assert directory.version == version
    directory.learn(gpu("GPU-1", name="H100"))
    assert directory.version == version + 1


def test_too_many_devices_are_counted_not_kept() -> None:
    directory = Directory()
    for number in range(DEVICES_MAX + 3):
        directory.learn(DeviceIdentity(kind=DeviceKind.NIC, device_id=f"mac-{number}"))
    assert len(directory.all()) == DEVICES_MAX
    assert directory.left_out == 3


def test_two_ports_of_one_nic_share_its_slot() -> None:
    directory = Directory()
    for function, mac in enumerate(("aa:01", "aa:02")):
        directory.learn(DeviceIdentity(kind=DeviceKind.NIC, device_id=mac, pci_bus_id=f"0000:5e:00.{function}"))
    assert [device.device_id for device in directory.all()] == ["aa:01", "aa:02"]
    first = directory.at_pci("0000:5e:00")
    assert first is not None
    assert first.device_id == "aa:01"
