"""The two ways to NVML as the host role wires them: they share the count of processes that hang in the driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node_agent.adapters.nvml_collector import NvmlCollector, NvmlLimits
from node_agent.adapters.nvml_event_source import NvmlEventSource
from node_agent.adapters.nvml_process import Children
from node_agent.adapters.pci_gpus import PCI_DEVICES
from node_agent.application.collector_ports import DeviceDirectory
from node_agent.domain.gpu_health import Expected
from service_kit.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlSources:
    """The collector, and the events; `events.heard` wants to be called with what the kernel log's source emits."""

    collector: NvmlCollector
    events: NvmlEventSource


def nvml_sources(
    *,
    directory: DeviceDirectory,
    clock: Clock,
    boot_id: str,
    library: str = "",
    gpus_expected: int | None = None,
    required: bool = False,
    pci_devices: Path = PCI_DEVICES,
    limits: NvmlLimits | None = None,
) -> NvmlSources:
    """Both, for one machine.

    Args:
        directory: learns who the GPUs are.
        clock: of the agent.
        boot_id: counters start anew with another one.
        library: path of libnvidia-ml.so.1; empty: as the loader finds it.
        gpus_expected: set by the operator; None: as many as the PCI bus has, or as were seen first.
        required: the operator says that there is a GPU; else a machine without one is silent, after saying so.
        pci_devices: sysfs.
        limits: None: the usual ones.
    """
    children = Children()
    expected = Expected(gpus=gpus_expected, boot_id=boot_id)
    collector = NvmlCollector(
        directory=directory,
        clock=clock,
        library=library,
        expected=expected,
        required=required,
        pci_devices=pci_devices,
        limits=limits,
        children=children,
    )
    events = NvmlEventSource(
        directory=directory, clock=clock, library=library, pci_devices=pci_devices, children=children
    )
    return NvmlSources(collector=collector, events=events)
