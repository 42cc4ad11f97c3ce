"""Every kind of line, read to its stated meaning: our own samples, and the reference's where it is checked out."""

from pathlib import Path

import pytest

from node_agent.domain.kernel_finding import LINE_CHARS_MAX, GpuNamed, KernelFinding
from node_agent.domain.kernel_line import NEEDLES, KernelLines

SAMPLES = [
    line.split("\t")
    for line in Path(__file__).with_name("kernel_lines.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
REFERENCE = Path(__file__).resolve().parents[5] / "shared" / "reference" / "xid" / "line-samples.txt"


def test_every_sample_has_its_meaning() -> None:
    lines = KernelLines()  # one for all: some things are told over several lines
    for check, health, device, attributes, line in SAMPLES:
        fact = lines.read(line)
        match fact:
            case None:
                assert check == "-", line
            case GpuNamed():
                assert (check, device) == ("named", fact.pci_bus_id), line
                assert attributes in (fact.gpu_uuid, fact.board_serial), line
            case KernelFinding():
                assert (fact.check, fact.health.value, fact.device) == (check, health, device), line
                for name, _, value in (pair.partition("=") for pair in attributes.split(";") if pair):
                    assert fact.attributes.get(name, "") == value, (name, line)


def test_no_sample_is_lost_to_the_prefilter() -> None:
    for check, *_, line in SAMPLES:
        assert check == "-" or any(needle in line for needle in NEEDLES), line


def test_a_name_of_a_pid_agrees_with_the_finding() -> None:
    found = KernelLines().read("NVRM: Xid (PCI:0000:4a:00): 43, pid=5150, name=python3, Ch 00000010")
    assert isinstance(found, KernelFinding)
    assert (found.pid, found.attributes["pid"]) == (5150, "5150")


def test_mig_instances_are_places_of_their_own() -> None:
    lines = KernelLines()
    one, two = (
        lines.read(f"NVRM: Xid (PCI:0000:4a:00 GPU-I:{instance:02}): 94, Contained: CE User Channel (0x9).")
        for instance in (5, 6)
    )
    assert isinstance(one, KernelFinding)
    assert isinstance(two, KernelFinding)
    assert one.location != two.location


def test_a_serial_number_without_its_gpu_names_nothing() -> None:
    assert KernelLines().read("NVRM: GPU Board Serial Number: 1654321000000") is None


def test_off_the_bus_without_an_address_is_told_all_the_same() -> None:
    found = KernelLines().read("NVRM: fallen off the bus and is not responding to commands.")
    assert isinstance(found, KernelFinding)
    assert (found.check, found.device) == ("xid_79", "")


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:4a:00): 13, pid=1, name=" + "a, " * 200_000,
        "NVRM: Xid (PCI:0000:4a:00): 74, NVLink: fatal error detected on link 1(" + "0x0, " * 200_000,
        "oom-kill:constraint=CONSTRAINT_MEMCG," + ",task_memcg=" * 100_000,
        "Out of memory: Killed process 1 (" + "(" * 200_000,
        "x" * 100 + "[1]: segfault at 0 " + " in " * 100_000,
        "EDAC MC0: 1 CE " + "on " * 100_000,
        "XFS (a): " + "shut" * 100_000,
        "",
        "\x00\x01NVRM: Xid (",
    ],
)
def test_hostile_lines_are_survived(line: str) -> None:
    fact = KernelLines().read(line)
    if isinstance(fact, KernelFinding):
        assert len(fact.sentence) <= LINE_CHARS_MAX + 200
        assert all(len(value) <= LINE_CHARS_MAX for value in fact.attributes.values())


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference data is not checked out beside the repository")
def test_the_reference_s_samples_are_read() -> None:
    lines = KernelLines()
    silent = ("installed in this system", "The NVIDIA GPU", "Severity", "Data {", "app[1]")
    for row in REFERENCE.read_text(encoding="utf-8").splitlines():
        _, _, line = row.partition("\t")
        fact = lines.read(line)
        assert (fact is None) == any(part in line for part in silent), line
        if isinstance(fact, KernelFinding) and "id (" in line:
            code = line.split("): ", 1)[1].split(",")[0].strip()
            assert fact.check.endswith(f"xid_{int(code)}"), line
