"""The driver's own wish for a GPU, by one name whoever tells it: Xid 154 in the kernel log, or NVML's field 230.

Values: NVML_GPU_RECOVERY_ACTION_* of nvml.h (R570: 0 to 4; R595: 5; newest header: 6 and 7).
"""

from __future__ import annotations

RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu_reset",
    2: "node_reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}
ATTRIBUTE = "recovery_action"
"""Of the observation: the slug."""


def recovery_action(value: int) -> str:
    """The slug of a value; one that a newer driver has is `value_N`."""
    return RECOVERY_ACTIONS.get(value, f"value_{value}")
