"""Details of driver lines: the code never depends on the message, and a broken message costs its detail only."""

import pytest

from node_agent.domain.gpu_line import GpuLines
from node_agent.domain.kernel_finding import GpuNamed
from node_agent.domain.nvlink5_line import NVLINK5_CODES, nvlink5_attributes
from node_agent.domain.recovery_action import RECOVERY_ACTIONS, recovery_action
from node_agent.domain.sxid_line import parse_sxid
from node_agent.domain.xid_line import parse_xid
from node_agent.domain.xid_message import message_details


@pytest.mark.parametrize("code", [13, 31, 45, 48, 74, 94, 95, 119, 120, 140, *NVLINK5_CODES, 154])
@pytest.mark.parametrize("message", ["", "something else", ")(", "(GPC , TPC )", "link (0x)", "Contained"])
def test_a_broken_message_costs_only_its_details(code: int, message: str) -> None:
    assert message_details(code, message) == ({}, "")
    found = parse_xid(f"NVRM: Xid (PCI:0000:3b:00): {code}, {message}")
    assert found is not None
    assert found.check == f"xid_{code}"


def test_a_process_cannot_choose_its_code() -> None:
    found = parse_xid("NVRM: Xid (PCI:0000:3b:00): 43, pid=1, name=): 79, Ch 1, Ch 00000010")
    assert found is not None
    assert (found.check, found.pid) == ("xid_43", 1)


@pytest.mark.parametrize(
    ("text", "process", "message"),
    [
        ("pid=9, name=python3, Ch 1", "python3", "Ch 1"),
        ("pid=9, name=a, b: c, Ch 1", "a, b: c", "Ch 1"),
        ("pid=9, name=python3", "python3", ""),
        ("pid=9, name=python3, ", "python3", ""),
        ("pid=9, name=, Ch 1", "", "Ch 1"),
        ("pid=9, name=longer_than_a_name_can_be, Ch 1", "longer_than_a_name_can_be", "Ch 1"),
        ("pid='<unknown>', name=<unknown>, Ch 1", "", "Ch 1"),
        ("pid=<unknown>, name=<unknown>, Ch 1", "", "Ch 1"),
    ],
)
def test_names_with_commas_and_without_end(text: str, process: str, message: str) -> None:
    found = parse_xid(f"NVRM: Xid (PCI:0000:3b:00): 43, {text}")
    assert found is not None
    assert found.attributes.get("process", "") == process
    assert found.sentence == "Xid 43 on 0000:3b:00" + (f": {message}" if message else "")


def test_nvlink5_words_are_written_in_one_way() -> None:
    attributes = nvlink5_attributes("TLW_RX_PIPE0 Nonfatal XC0 i1 Link 03 (0x14A 0x2 0xFFFFFFFF)")
    assert (attributes["intr_info"], attributes["error_status"]) == ("0x0000014a", "0x00000002")
    assert (attributes["injected"], attributes["link"], attributes["severity"]) == ("1", "3", "non_fatal")


def test_the_driver_s_wishes_by_name() -> None:
    assert [recovery_action(value) for value in (0, 2, 9)] == ["none", "node_reboot", "value_9"]
    assert len(set(RECOVERY_ACTIONS.values())) == len(RECOVERY_ACTIONS)


def test_sxid_details_are_no_second_fault() -> None:
    head = "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, "
    details = ("Severity 0 Engine instance 32 Sub-engine instance 00", "Data {0x00140004, 0x0}")
    told = [parse_sxid(head + rest) for rest in ("Non-fatal, Link 32 egress", *details)]
    assert [each is not None for each in told] == [True, False, False]


def test_two_gpus_named_one_after_the_other_keep_their_serials() -> None:
    lines = GpuLines()
    uuids = ("GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b")
    told = []
    for bus, uuid in zip(("3b", "5e"), uuids, strict=True):
        lines.read(f"NVRM: GPU at PCI:0000:{bus}:00: {uuid}")
        told.append(lines.read(f"NVRM: GPU Board Serial Number: 16{bus}"))
    assert told == [
        GpuNamed(pci_bus_id="0000:3b:00", board_serial="163b"), GpuNamed(pci_bus_id="0000:5e:00", board_serial="165e")
    ]  # fmt: skip
