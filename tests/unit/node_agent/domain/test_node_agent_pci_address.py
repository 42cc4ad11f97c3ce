"""All spellings of one address become one."""

from __future__ import annotations

import pytest

from node_agent.domain.pci_address import pci_address


@pytest.mark.parametrize(
    "spelling",
    ["0000:3b:00", "00000000:3B:00.0", "0000:3b:00.0", "PCI:0000:3b:00", "3B:00.0", "pci:0000:3B:0", " 0000:3b:00 "],
)
def test_every_spelling_gives_the_kernel_logs(spelling: str) -> None:
    assert pci_address(spelling) == "0000:3b:00"


def test_a_large_domain_keeps_its_digits() -> None:
    assert pci_address("00010001:00:00.0") == "10001:00:00"
    assert pci_address("ABCD:00:1f.7") == "abcd:00:1f"


@pytest.mark.parametrize(
    "text", ["", "GPU-1", "0000:3b", "0000:3b:20", "0000:3b:00.0.0", "0000:3bb:00", "\u0663b:00.0", "1:" * 100]
)
def test_what_is_no_address_is_none(text: str) -> None:
    assert pci_address(text) is None
