"""One spelling for a PCI address: `dddd:bb:dd` in lower case, as the kernel log writes a GPU.

NVML writes `00000000:3B:00.0`, sysfs `0000:3b:00.0`, Xid lines `PCI:0000:3b:00`, lspci `3b:00.0`. The function is left
out: a GPU, a NIC's port and its audio or virtual functions sit in one slot, and the slot is what breaks.
"""

from __future__ import annotations

import re

_SPELLING = re.compile(
    r"\s*(?:PCI:)?(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.[0-9a-f]+)?\s*",
    re.IGNORECASE | re.ASCII,
)
TEXT_MAX = 64
"""Characters that are looked at; the longest spelling (`PCI:` and an eight-digit domain) has 20."""


def pci_address(text: str) -> str | None:
    """The address in our spelling, or None when the text is none.

    A domain keeps at least four digits and gets more only when it needs them (virtual machines of some clouds have
    domains above ffff). Without a domain it is 0000, as lspci means it.
    """
    if len(text) > TEXT_MAX:
        return None
    found = _SPELLING.fullmatch(text)
    if found is None:
        return None
    domain = int(found["domain"] or "0", 16)
    bus, device = int(found["bus"], 16), int(found["device"], 16)
    if device > 0x1F:  # five bits (PCI Local Bus Specification 3.0, section 3.2.2.3.2)
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}"
