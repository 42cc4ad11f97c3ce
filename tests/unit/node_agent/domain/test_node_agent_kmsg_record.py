"""Records of the kernel log, and lines that are none."""

import pytest

from node_agent.domain.kernel_finding import LINE_CHARS_MAX
from node_agent.domain.kmsg_record import parse_record, sequence_of


def test_a_record_is_taken_apart() -> None:
    record = parse_record(b"4,2391,884213377,-;NVRM: Xid (PCI:0000:3b:00): 79, ; and more")
    assert record is not None
    assert (record.facility, record.sequence, record.since_boot_us) == (0, 2391, 884213377)
    assert record.text == "NVRM: Xid (PCI:0000:3b:00): 79, ; and more"


def test_newer_kernels_add_fields_to_the_head() -> None:
    record = parse_record(b"6,1,5,-,caller=T1;text")
    assert record is not None
    assert record.text == "text"


def test_the_facility_tells_who_wrote() -> None:
    facilities = [getattr(parse_record(b"%d,1,5,-;x" % priority), "facility", None) for priority in (3, 12, 30)]
    assert facilities == [0, 1, 3]


@pytest.mark.parametrize("line", [b"", b" DEVICE=b8:0", b"no record; at all", b"a,1,2,-;x", b"4,1,2;x", b"4,-1,2,-;x"])
def test_what_is_no_record(line: bytes) -> None:
    assert parse_record(line) is None


def test_the_number_alone() -> None:
    assert sequence_of(b"4,2391,884213377,-;text") == 2391
    assert sequence_of(b" SUBSYSTEM=pci,1,2") is None
    assert sequence_of(b"text, with 1, commas") is None


def test_the_text_is_cut() -> None:
    record = parse_record(b"4,1,2,-;" + b"x" * 100_000)
    assert record is not None
    assert len(record.text) == LINE_CHARS_MAX
