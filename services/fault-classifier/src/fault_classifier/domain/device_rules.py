"""The rules about devices, in the order in which they are asked; part of the rulebook."""

from __future__ import annotations

from fault_classifier.domain import device_conditions as device
from fault_classifier.domain.device_conditions import of_device
from fault_classifier.domain.rule import Rule
from fault_contracts.faults import Action, Attribution

_XID = "NVIDIA, Xid catalogue: docs.nvidia.com/deploy/xid-errors; the row is named by DeviceEvidence.source"
_OWN = "our own policy: a hardware verdict needs evidence from the device"
_HARDWARE, _DRIVER, _PLATFORM = Attribution.HARDWARE, Attribution.DRIVER, Attribution.PLATFORM

DEVICE_RULES: tuple[Rule, ...] = (
    Rule(
        rule_id="hardware.gpu_lost",
        holds=of_device(device.GPU_LOST, _HARDWARE),
        attribution=_HARDWARE,
        cause="gpu_lost",
        action=Action.REPLACE_NODE,
        confidence=0.95,
        meaning="A GPU has fallen off the bus, or is no longer counted: nothing in software brings it back.",
        advice="The node is not used until it is released: power-cycle it, reseat or replace the GPU, then release it.",
        near_miss="A driver that does not answer is gpu_driver.",
        source=_XID,
    ),
    Rule(
        rule_id="hardware.gpu_memory",
        holds=of_device(device.GPU_MEMORY, _HARDWARE),
        attribution=_HARDWARE,
        cause="gpu_memory",
        action=Action.RESET_GPU,
        confidence=0.9,
        meaning="A GPU's memory has an error that could not be corrected, or rows that could not be remapped.",
        advice="Reset the GPU; if it comes back, replace it. The ledger counts its strikes.",
        near_miss="An illegal access of the program (Xid 13, 31) is the user's until it recurs on one GPU over jobs.",
        source=_XID,
    ),
    Rule(
        rule_id="hardware.nvlink",
        holds=of_device(device.NVLINK, _HARDWARE),
        attribution=_HARDWARE,
        cause="nvlink",
        action=Action.RESET_GPU,
        confidence=0.85,
        meaning="A link between GPUs, or an NVSwitch, failed.",
        advice="Look at the links of that GPU and at the switch; both ends of a link report it.",
        near_miss="A link error that follows another GPU's fall off the bus is sympathetic, and never a cause.",
        source=_XID,
    ),
    Rule(
        rule_id="hardware.gpu_thermal",
        holds=of_device(device.GPU_THERMAL, _HARDWARE),
        attribution=_HARDWARE,
        cause="gpu_thermal",
        action=Action.REPLACE_NODE,
        confidence=0.8,
        meaning="A GPU was too hot, or was braked for heat or power, for longer than is tolerated.",
        advice="Look at fans, coolant and the neighbours in the rack.",
        near_miss="A slow rank without such evidence is straggler_suspected, a problem and no fault.",
        source=_OWN,
    ),
    Rule(
        rule_id="hardware.nic",
        holds=of_device(device.NIC, _HARDWARE),
        attribution=_HARDWARE,
        cause="nic",
        action=Action.REPLACE_NODE,
        confidence=0.8,
        meaning="A network adapter's link is down, it flaps, or an adapter is missing.",
        advice="Look at cable, transceiver and switch port before the adapter itself.",
        near_miss="Lost peers without it are communication_error.",
        source=_OWN,
    ),
    Rule(
        rule_id="hardware.device_fault",
        holds=of_device(None, _HARDWARE),
        attribution=_HARDWARE,
        cause="device_fault",
        action=Action.REPLACE_NODE,
        confidence=0.8,
        meaning="A device failed in a way that has no section of its own here; its check is in the reason.",
        advice="Read the reason, and the policy's row that it names.",
        near_miss="What a program can cause is the user's until it recurs.",
        source=_OWN,
    ),
    Rule(
        rule_id="driver.gpu_driver",
        holds=of_device(None, _DRIVER),
        attribution=_DRIVER,
        cause="gpu_driver",
        action=Action.REBOOT_NODE,
        confidence=0.8,
        meaning="The GPU driver or its firmware failed or does not answer (GSP timeout, NVML hangs, ...).",
        advice="Reboot the node. If it recurs on one driver version over nodes, change the version.",
        near_miss="A GPU that fell off the bus is gpu_lost, also when the driver hangs because of it.",
        source=_XID,
    ),
)
PLATFORM_DEVICE_RULES: tuple[Rule, ...] = (
    Rule(
        rule_id="platform.host_fault",
        holds=of_device(None, _PLATFORM),
        attribution=_PLATFORM,
        cause="host_fault",
        action=Action.REBOOT_NODE,
        confidence=0.7,
        meaning="The machine itself is in a bad state: its disk, its memory, its kernel.",
        advice="Read the reason; look at the kernel log of that node.",
        near_miss="A rank that the OOM killer ended is oom_kill.",
        source=_OWN,
    ),
    Rule(
        rule_id="unknown.device_report",
        holds=of_device(None, Attribution.UNKNOWN),
        attribution=Attribution.UNKNOWN,
        cause="device_report",
        action=Action.RESTART_PROCESS,
        confidence=0.5,
        meaning="A device reported a fault of which nobody knows whose it is.",
        advice="Read the reason. If it recurs on one device over jobs, take the device out by hand.",
        near_miss="With an origin in the policy it is a hardware, driver or platform cause.",
        source=_OWN,
    ),
)
"""Weaker than a kill from outside: they may as well follow from it."""
