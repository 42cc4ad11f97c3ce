"""Devices that failed, as findings: by whose fault the policy takes it to be, and by family of check.

The evidence is the device's own (NVML, the kernel log, a link's state), so it stands above what ranks say of
themselves: a process that dies beside a broken GPU proves nothing about its program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fault_attribution.finding import Finding, Role
from fault_classifier.domain.evidence import DeviceFault
from fault_classifier.domain.exit_facts import TEXT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Checks that mean the same part of the machine.

    Attributes:
        name: the `family` of a finding.
        xids: codes of the NVIDIA driver; meanings from its Xid catalogue (docs.nvidia.com/deploy/xid-errors).
        prefixes: beginnings of the slugs of checks.
    """

    name: str
    xids: frozenset[int] = frozenset()
    prefixes: tuple[str, ...] = ()

    def has(self, fault: DeviceFault) -> bool:
        """Whether a fault belongs to it, by its code or by the slug of its check."""
        if fault.xid is not None and fault.xid in self.xids:
            return True
        return any(fault.check.startswith(prefix) for prefix in self.prefixes)


FAMILIES = (
    # 79: GPU has fallen off the bus.
    Family(name="gpu_lost", xids=frozenset({79}), prefixes=("gpu_lost", "gpu_count", "gpu_bus")),
    # 48 double bit ECC, 63/64 row remapping, 92 high rate of single bit errors, 94/95 contained and uncontained, 140.
    Family(
        name="gpu_memory",
        xids=frozenset({48, 63, 64, 92, 94, 95, 140, 160, 171, 172}),
        prefixes=("gpu_ecc", "gpu_row_remap", "gpu_sram", "gpu_retired", "gpu_memory"),
    ),
    # 74 NVLink error, 144 to 150 NVLink 5.
    Family(
        name="nvlink",
        xids=frozenset({74, *range(144, 151)}),
        prefixes=("nvlink", "gpu_nvlink", "nvswitch", "sxid_", "fabric", "gpu_fabric"),
    ),
    Family(name="gpu_thermal", prefixes=("gpu_temperature", "gpu_thermal", "gpu_slowdown")),
    Family(name="nic", prefixes=("nic_",)),
)
"""Asked in this order."""


def device_facts(fault: DeviceFault) -> Iterator[Finding]:
    """The failed device with its origin and family, and the check itself in the words that logs are read into."""
    family = next((each.name for each in FAMILIES if each.has(fault)), "other")
    reported = fault.xid is not None or fault.sxid is not None or bool(fault.driver_action)
    wish = f"; the driver asks for {fault.driver_action}" if fault.driver_action else ""
    captures = {
        "origin": str(fault.origin),
        "family": family,
        "check": fault.check,
        "action": str(fault.action),
        "reported": "yes" if reported else "no",
        "driver_action": fault.driver_action,
    }
    sentence = f"{fault.named} on {fault.node_id} failed: {fault.sentence}{wish}"
    yield _finding(fault, "device_fault", sentence, captures, role=Role.CAUSE)
    for kind in kinds_of_check(fault.check, fault.xid, fault.sxid):
        yield _finding(fault, kind, f"{fault.sentence}{wish}", {"check": fault.check}, role=Role.SYMPTOM)


def kinds_of_check(check: str, xid: int | None, sxid: int | None) -> tuple[str, ...]:
    """The words in which rules know a check: its own, and the driver's code, as lines of the kernel log are read."""
    codes = (None if xid is None else f"xid_{xid}", None if sxid is None else f"sxid_{sxid}")
    return tuple(dict.fromkeys([check, *(code for code in codes if code is not None)]))


def _finding(fault: DeviceFault, kind: str, sentence: str, captures: dict[str, str], *, role: Role) -> Finding:
    return Finding(
        finding_id=f"{kind}:{fault.evidence_id}",
        kind=kind,
        role=role,
        node=fault.node_id,
        device=fault.gpu_uuid or fault.component_id or fault.component,
        process=fault.process.removeprefix("pid "),
        captures=captures,
        text=sentence[:TEXT_MAX],
        rule_id="live.device",
        because=(fault.evidence_id,),
    )
