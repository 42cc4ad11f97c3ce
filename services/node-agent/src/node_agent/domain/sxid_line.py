"""Lines of the NVSwitch driver (up to Hopper): `nvidia-nvswitchN: SXid (PCI:dddd:bb:dd.f): NNNNN, ...`.

One fault has up to three lines: what happened, `Severity ...`, `Data {...}`. Only the first is a signal, told at once;
the others add engine numbers and register words for whoever reads the kernel log, and are no faults of their own.
"""

from __future__ import annotations

import re

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.pci_address import pci_address

_HEAD = re.compile(r"nvidia-nvswitch\d{1,3}: SXid \(")
_SXID = re.compile(
    r"nvidia-nvswitch(?P<switch>\d{1,3}): SXid \(PCI:(?P<pci>[0-9a-fA-F:.]{5,20})\): (?P<code>\d{1,5})"
    r"(?:, ?(?P<rest>.*))?",
    re.DOTALL,
)
_WHAT = re.compile(r"(?:(?P<severity>Fatal|Non-fatal), )?(?:Link (?P<link>\d{1,3}) )?(?P<text>.*)", re.DOTALL)
_ENGINE = re.compile(r"Severity \d+ Engine instance \d+ Sub-engine instance \d+")
_DATA = re.compile(r"Data \{[0-9a-fA-Fx, ]{1,400}\}")


def parse_sxid(line: str) -> KernelFinding | None:
    """The finding of a line; None when it is not about an SXid, or only adds words to the line before it."""
    if _HEAD.match(line) is None:
        return None
    found = _SXID.fullmatch(line)
    pci = None if found is None else pci_address(found["pci"])
    if found is None or pci is None:
        return KernelFinding(
            component=Component.DRIVER,
            check="sxid_malformed",
            health=Health.UNKNOWN,
            sentence=f"the NVSwitch driver wrote a line that begins as an SXid and cannot be read: {line}",
        )
    rest = (found["rest"] or "").strip()
    if _ENGINE.match(rest) or _DATA.match(rest):
        return None
    what = _WHAT.fullmatch(rest)
    assert what is not None, "the last part takes anything"
    code = int(found["code"])
    attributes = {"sxid": str(code), "pci_bus_id": pci, "nvswitch": found["switch"]}
    if what["severity"]:
        attributes["severity"] = "fatal" if what["severity"] == "Fatal" else "non_fatal"
    if what["link"]:
        attributes["link"] = str(int(what["link"]))
    return KernelFinding(
        component=Component.NVSWITCH,
        device=pci,
        check=f"sxid_{code}",
        health=Health.BAD,
        sentence=f"SXid {code} of NVSwitch {found['switch']} at {pci}: {rest}",
        attributes=attributes,
        location=f"link{attributes['link']}" if "link" in attributes else "",
    )
