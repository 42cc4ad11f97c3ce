"""A device with which a node was given up does not come back: under another node, another uuid, or the same name."""

import random

from node_ward import GPU, NOON, standing

from fault_contracts.hardware import HeldDevice
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Reason
from recovery_planner.domain.known_bad import book_of, identities, is_told, known_bad, to_list
from recovery_planner.domain.node_life import NodeLife

VENDOR = "10de:2330"


def device(uuid: str, serial: str = "") -> DeviceIdentity:
    vendor = VENDOR if serial else ""
    return DeviceIdentity(kind=DeviceKind.GPU, device_id=uuid, board_serial=serial, pci_vendor_data=vendor)


def given_up(*devices: DeviceIdentity, blamed: str = "") -> NodeLife:
    listed = to_list(standing("old", devices=devices), blamed)
    return NodeLife(node_id="old", since=NOON, reason=Reason(rule_id="x", sentence="x"), listed=listed)


def test_the_same_uuid_is_recognised() -> None:
    book = book_of([given_up(device("GPU-a", "S1"))])
    found = known_bad("new", standing("new", devices=(device("GPU-a"),)), book)
    assert found is not None
    assert "old was given up" in found.sentence


def test_the_same_board_under_another_uuid_is_recognised() -> None:
    book = book_of([given_up(device("GPU-a", "S1"))])
    assert known_bad("new", standing("new", devices=(device("GPU-b", "S1"),)), book) is not None


def test_another_board_is_another_board() -> None:
    book = book_of([given_up(device("GPU-a", "S1"))])
    assert known_bad("new", standing("new", devices=(device("GPU-b", "S2"),)), book) is None


def test_an_empty_serial_identifies_nothing() -> None:
    assert identities(device("GPU-a")) == ("id:GPU-a",)


def test_only_the_blamed_device_is_listed() -> None:
    life = given_up(device("GPU-a", "S1"), device("GPU-b", "S2"), blamed="GPU-a")
    assert known_bad("new", standing("new", devices=(device("GPU-b", "S2"),)), book_of([life])) is None
    assert known_bad("new", standing("new", devices=(device("GPU-a", "S1"),)), book_of([life])) is not None


def test_without_a_blamed_device_all_are_listed() -> None:
    life = given_up(device("GPU-a", "S1"), device("GPU-b", "S2"))
    assert known_bad("new", standing("new", devices=(device("GPU-b", "S2"),)), book_of([life])) is not None


def test_a_blamed_device_that_no_inventory_knows_is_listed_by_its_uuid() -> None:
    assert to_list(None, "GPU-a") == ("id:GPU-a",)


def test_a_device_in_the_ledgers_quarantine_is_bad_without_a_book() -> None:
    held = (HeldDevice(device_id=GPU, reason="row remap failure"),)
    found = known_bad("new", standing("new", held=held), {})
    assert found is not None
    assert "row remap failure" in found.sentence


def test_a_node_of_which_nothing_is_told_is_not_told() -> None:
    assert not is_told(None)
    assert not is_told(standing(inventory_at=None))
    assert is_told(standing())


def test_no_listed_device_comes_back_in_many_returns() -> None:
    random_ = random.Random(7)
    lives: dict[str, NodeLife] = {}
    book: dict[str, str] = {}
    bad: list[DeviceIdentity] = []
    brought = 0
    for number in range(20_000):
        node = f"cloud-{number}"
        carried = device(f"GPU-{number}", f"S{number}")
        if bad and random_.random() < 0.3:
            old = bad[random_.randrange(len(bad))]
            carried = old if random_.random() < 0.5 else device(f"GPU-{number}", old.board_serial)
            brought += 1
            assert known_bad(node, standing(node, devices=(carried,)), book) is not None
            continue
        assert known_bad(node, standing(node, devices=(carried,)), book) is None
        if random_.random() < 0.2:
            bad.append(carried)
            lives[node] = NodeLife(
                node_id=node,
                since=NOON,
                reason=Reason(rule_id="x", sentence="x"),
                listed=to_list(standing(node, devices=(carried,)), carried.device_id),
            )
            book.update(dict.fromkeys(lives[node].listed, node))
    assert brought > 5_000
