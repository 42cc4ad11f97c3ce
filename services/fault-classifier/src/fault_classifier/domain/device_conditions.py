"""When a rule about a device that failed holds: by whose fault the policy takes it to be, and by family of check.

The evidence is the device's own (NVML, the kernel log, a link's state), so it stands above what ranks say of
themselves: a process that dies beside a broken GPU proves nothing about its program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fault_classifier.domain.evidence import DeviceFault
from fault_classifier.domain.rule import Case, Match
from fault_contracts.faults import Attribution

UNSURE_FACTOR = 0.9
"""Neither a code of the driver nor its own wish: a measured threshold says it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Checks that mean the same part of the machine.

    Attributes:
        xids: codes of the NVIDIA driver; meanings from its Xid catalogue (docs.nvidia.com/deploy/xid-errors).
        prefixes: beginnings of the slugs of checks.
    """

    xids: frozenset[int] = frozenset()
    prefixes: tuple[str, ...] = ()

    def has(self, fault: DeviceFault) -> bool:
        """Whether a fault belongs to it, by its code or by the slug of its check."""
        if fault.xid is not None and fault.xid in self.xids:
            return True
        return any(fault.check.startswith(prefix) for prefix in self.prefixes)


GPU_LOST = Family(xids=frozenset({79}), prefixes=("gpu_lost", "gpu_count", "gpu_bus"))
"""79: GPU has fallen off the bus."""
GPU_MEMORY = Family(
    xids=frozenset({48, 63, 64, 92, 94, 95, 140, 160, 171, 172}),
    prefixes=("gpu_ecc", "gpu_row_remap", "gpu_sram", "gpu_retired", "gpu_memory"),
)
"""48 double bit ECC, 63/64 row remapping, 92 high rate of single bit errors, 94/95 contained and uncontained, 140."""
NVLINK = Family(
    xids=frozenset({74, *range(144, 151)}),
    prefixes=("nvlink", "gpu_nvlink", "nvswitch", "sxid_", "fabric", "gpu_fabric"),
)
"""74 NVLink error, 144 to 150 NVLink 5."""
GPU_THERMAL = Family(prefixes=("gpu_temperature", "gpu_thermal", "gpu_slowdown"))
NIC = Family(prefixes=("nic_",))


def of_device(family: Family | None, *origins: Attribution) -> Callable[[Case], Match | None]:
    """A rule's condition: a device fault of these origins, in a family or in any."""

    def holds(case: Case) -> Match | None:
        piece = case.piece
        if not isinstance(piece, DeviceFault) or piece.origin not in origins:
            return None
        if family is not None and not family.has(piece):
            return None
        return _match(piece)

    return holds


def _match(fault: DeviceFault) -> Match:
    doubts: tuple[str, ...] = ()
    sure = fault.xid is not None or fault.sxid is not None or bool(fault.driver_action)
    if not sure:
        doubts = (f"{fault.check} is a measurement of the machine; the driver itself has reported nothing",)
    wish = f"; the driver asks for {fault.driver_action}" if fault.driver_action else ""
    return Match(
        sentence=f"{fault.named} on {fault.node_id} failed: {fault.sentence}{wish}"[:2_000],
        evidence_ids=(fault.evidence_id,),
        confidence_factor=1.0 if sure else UNSURE_FACTOR,
        doubts=doubts,
        action=fault.action,
    )
