"""What stands in the message of an Xid, beyond its code: where it happened, what caused it, what the driver wants.

Messages change from driver to driver. Nothing here decides: a message of another shape costs a detail, not the Xid.
Shapes: sources of the open kernel modules, tags 515 to 595; 48, 64 and 120 come from firmware and vary.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from node_agent.domain.nvlink5_line import NVLINK5_CODES, nvlink5_attributes
from node_agent.domain.recovery_action import ATTRIBUTE, recovery_action

_SM = re.compile(r"\(GPC (?P<gpc>\d{1,3}), TPC (?P<tpc>\d{1,3})(?:, SM (?P<sm>\d{1,3}))?\)")
_MMU = re.compile(
    r"MMU Fault: ENGINE (?P<engine>\S{1,40}(?: \d+)?) (?P<client>\S{1,60}) "
    r"faulted @ (?P<address>0x[0-9a-fA-F_]{1,32})\. "
    r"Fault is of type (?P<fault_type>\w{1,60}) (?P<access>ACCESS_TYPE_\w{1,40})"
)
_CAUSE = re.compile(r"caused by previous Xid (?P<cause_xid>\d{1,5})\s*$")
_PARTITION = re.compile(r"partition (?P<partition>\d{1,3})(?:, subpartition (?P<subpartition>\d{1,3}))?")
_NVLINK = re.compile(r"link (?P<link>\d{1,3})\s?\((?P<registers>0x[0-9a-fA-F]{1,8}(?:, 0x[0-9a-fA-F]{1,8}){0,6})\)")
_CONTAINED = re.compile(
    r"(?P<containment>Contained|Uncontained): (?P<unit>[^.]{1,80})"
    r"(?:\. RST: (?P<rst>Yes|No), D-RST: (?P<d_rst>Yes|No))?"
)
_GSP_TIMEOUT = re.compile(
    r"Timeout after (?P<timeout_s>\d{1,5})s of waiting for RPC response from GPU(?P<gpu_index>\d{1,3}) GSP!"
    r"(?: Expected function (?P<rpc_function>\d{1,6}) \((?P<rpc_name>\w{1,60})\))?"
)
_GSP_TASK = re.compile(r"GSP task exception: (?P<gsp_exception>\w{1,60})")
_ECC_UNITS = re.compile(r"DRAM:(?P<dram>\d+), LTC:(?P<ltc>\d+), MMU:(?P<mmu>\d+), PCIE:(?P<pcie>\d+)")
_WISH = re.compile(
    r"recovery action changed from 0x(?P<before>[0-9a-fA-F]{1,8}) \((?P<before_text>[^()]{0,60})\) "
    r"to 0x(?P<after>[0-9a-fA-F]{1,8}) \((?P<after_text>[^()]{0,60})\)"
)
RECOVERY_XID = 154


def message_details(code: int, message: str) -> tuple[dict[str, str], str]:
    """Attributes, and the location within the device."""
    if code in NVLINK5_CODES:
        attributes = nvlink5_attributes(message)
        # The unit and both words: NVLink faults of one kind repeat, those of another must not be folded with them.
        place = (attributes.get(name, "") for name in ("link", "unit", "intr_info", "error_status"))
        return attributes, "/".join(place) if attributes else ""
    reader = _READERS.get(code)
    return ({}, "") if reader is None else reader(message)


def _exception(message: str) -> tuple[dict[str, str], str]:
    found = _SM.search(message)
    if found is None:
        return {}, ""
    location = f"gpc{found['gpc']}/tpc{found['tpc']}" + (f"/sm{found['sm']}" if found["sm"] else "")
    return _named(found), location


def _mmu_fault(message: str) -> tuple[dict[str, str], str]:
    found = _MMU.search(message)
    return ({}, "") if found is None else (_named(found), f"{found['engine']}/{found['client']}")


def _channel_removed(message: str) -> tuple[dict[str, str], str]:
    found = _CAUSE.search(message)
    return ({}, "") if found is None else (_named(found), f"xid_{found['cause_xid']}")


def _ecc(message: str) -> tuple[dict[str, str], str]:
    found = _PARTITION.search(message)
    if found is None:
        return {}, ""
    parts = [f"partition{found['partition']}"] + ([f"sub{found['subpartition']}"] if found["subpartition"] else [])
    return _named(found), "/".join(parts)


def _remap(message: str) -> tuple[dict[str, str], str]:
    """The driver writes one code for a remap that could not be recorded and for one that failed."""
    return ({"row_remap_failure": "true"}, "") if "remapping failure" in message.lower() else ({}, "")


def _nvlink(message: str) -> tuple[dict[str, str], str]:
    found = _NVLINK.search(message)
    if found is None:
        return {}, ""
    # The registers tell what is wrong with the link: other registers are another fault.
    return _named(found), f"link{int(found['link'])}/{found['registers'].replace(', ', ',')}"


def _containment(message: str) -> tuple[dict[str, str], str]:
    found = _CONTAINED.search(message)
    if found is None:
        return {}, ""
    attributes = {name: value.lower() for name, value in _named(found).items() if name != "unit"}
    return attributes | {"unit": found["unit"].strip()}, found["unit"].strip()


def _gsp(message: str) -> tuple[dict[str, str], str]:
    found = _GSP_TIMEOUT.search(message) or _GSP_TASK.search(message)
    return ({}, "") if found is None else (_named(found), found.groupdict().get("rpc_name") or "")


def _ecc_escape(message: str) -> tuple[dict[str, str], str]:
    found = _ECC_UNITS.search(message)
    if found is None:
        return {}, ""
    counts = _named(found)
    hit = [name for name, count in counts.items() if int(count)]
    return {f"ecc_{name}": count for name, count in counts.items()}, "+".join(hit)


def _wish(message: str) -> tuple[dict[str, str], str]:
    found = _WISH.search(message)
    if found is None:
        return {}, ""
    before, after = int(found["before"], 16), int(found["after"], 16)
    attributes = {
        "recovery_before": recovery_action(before),
        ATTRIBUTE: recovery_action(after),
        "recovery_value": str(after),
        "recovery_text": found["after_text"],
    }
    return attributes, f"{attributes['recovery_before']}>{attributes[ATTRIBUTE]}"


def _named(found: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value is not None}


_READERS: dict[int, Callable[[str], tuple[dict[str, str], str]]] = {
    13: _exception,
    31: _mmu_fault,
    45: _channel_removed,
    48: _ecc,
    64: _remap,
    74: _nvlink,
    94: _containment,
    95: _containment,
    119: _gsp,
    120: _gsp,
    140: _ecc_escape,
    RECOVERY_XID: _wish,
}
