"""Lines of the NVIDIA driver about an Xid: `NVRM: Xid (<device>): <code>[, pid=<P>][, name=<N>][, <message>]`.

All eras since R4xx: without `PCI:`, without pid, with pid only, with pid and name, with either unknown, and R570's that
leaves them out; MIG instances stand inside the parentheses. A line that begins as an Xid and is none is told as
unknown: never dropped, never taken for a fault.
"""

from __future__ import annotations

import re

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.pci_address import pci_address
from node_agent.domain.recovery_action import ATTRIBUTE
from node_agent.domain.xid_message import RECOVERY_XID, message_details

HEAD = "NVRM: Xid ("
PROCESS_CHARS_MAX = 15
"""TASK_COMM_LEN of the kernel is 16 with its end; the driver prints the task's name."""
GOOD_NEWS = frozenset({162})
"""Codes that tell the end of something: 162 is power smoothing back, after 163."""

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})(?: GPU-I:(?P<gi>\d{1,4}))?(?: GPU-CI:(?P<ci>\d{1,4}))?\): "
    r"(?P<code>\d{1,5})(?:,(?P<rest>.*)|\s*)",
    re.DOTALL,
)
_PID = re.compile(r"\s?pid=(?:(?P<pid>\d{1,10})|'?<unknown>'?)(?:,(?P<rest>.*)|$)", re.DOTALL)
_MESSAGE_HEAD = re.compile(
    r"Ch(?:annel)? |Graphics |MMU |NVLink|Row |DBE |SBE |Contained|Uncontained|Timeout |GSP |GPU |An uncorrectable |"
    r"[A-Z0-9_/]+ (?:Fatal|Nonfatal) |engmask|L1 |Dynamic |Page |PMU|Failed"
)


def parse_xid(line: str) -> KernelFinding | None:
    """The finding of a line, or None when it is not about an Xid."""
    if not line.startswith(HEAD):
        return None
    found = _XID.fullmatch(line)
    pci = None if found is None else pci_address(found["pci"])
    if found is None or pci is None or int(found["code"]) == 0:
        return _malformed("xid_malformed", line)
    code = int(found["code"])
    pid, process, message = _process(found["rest"] or "")
    details, location = message_details(code, message)
    attributes = {"xid": str(code), "pci_bus_id": pci} | details
    for name, value in (("gpu_instance", found["gi"]), ("compute_instance", found["ci"])):
        if value is not None:
            attributes[name] = str(int(value))
    if process:
        attributes["process"] = process
    if location:
        attributes["location"] = location
    if pid is not None:
        attributes["pid"] = str(pid)
    return KernelFinding(
        component=Component.GPU,
        device=pci,
        check=f"xid_{code}",
        health=_health(code, attributes),
        sentence=f"Xid {code} on {pci}" + (f": {message}" if message else ""),
        attributes=attributes,
        pid=pid,
        location="/".join(filter(None, (_instance(attributes), location))),
    )


def _health(code: int, attributes: dict[str, str]) -> Health:
    """Xid 154 is a message about a wish: to None it is good news, and what cannot be read is unknown."""
    if code == RECOVERY_XID:
        wish = attributes.get(ATTRIBUTE)
        return Health.UNKNOWN if wish is None else Health.OK if wish == "none" else Health.BAD
    return Health.OK if code in GOOD_NEWS else Health.BAD


def _instance(attributes: dict[str, str]) -> str:
    parts = [f"gi{attributes['gpu_instance']}"] if "gpu_instance" in attributes else []
    return "/".join(parts + ([f"ci{attributes['compute_instance']}"] if "compute_instance" in attributes else []))


def _process(rest: str) -> tuple[int | None, str, str]:
    """Pid, name and message of what follows the code."""
    found = _PID.match(rest)
    if found is None:
        return None, "", rest.strip()
    pid = None if found["pid"] is None else int(found["pid"])
    after = (found["rest"] or "").removeprefix(" ")
    if not after.startswith("name="):
        return pid, "", after.strip()
    name, message = _name_and_message(after.removeprefix("name="))
    return pid, "" if name == "<unknown>" else name, message


def _name_and_message(text: str) -> tuple[str, str]:
    """A name may have commas itself. It has at most 15 characters, and messages have known beginnings."""
    ends = [at for at in range(min(len(text), PROCESS_CHARS_MAX + 1)) if text.startswith(", ", at)]
    for at in ends:
        if _MESSAGE_HEAD.match(text, at + 2):
            return text[:at], text[at + 2 :].strip()
    if ends:
        return text[: ends[0]], text[ends[0] + 2 :].strip()
    # Longer than a name can be: a driver that prints more of it.
    name, _, message = text.partition(", ")
    return name.rstrip(", "), message.strip()


def _malformed(check: str, line: str) -> KernelFinding:
    return KernelFinding(
        component=Component.DRIVER,
        check=check,
        health=Health.UNKNOWN,
        sentence=f"the driver wrote a line that begins as an Xid and cannot be read: {line}",
    )
