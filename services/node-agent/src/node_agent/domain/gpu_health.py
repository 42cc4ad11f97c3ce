"""A look at all GPUs of the machine, turned into observations: the parts' checks, and who is missing.

Pure: what was known before goes in, what is known now comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain import gpu_memory_health, gpu_pcie_health, gpu_state_health
from node_agent.domain.counter_deltas import Counters, Growth, growth
from node_agent.domain.gpu_heat_health import heat_health, slowed_by_software
from node_agent.domain.gpu_look import LIMITS, GpuHistory, GpuLook
from node_agent.domain.gpu_reading import GpuReading, MachineReading
from node_agent.domain.nvlink_health import link_counters, links_down, links_of_peers, links_up, nvlink_health
from node_agent.domain.observation import Observation

_COUNTERS = (*gpu_memory_health.COUNTERS, *gpu_pcie_health.COUNTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered of the machine.

    Attributes:
        seen: the last reading of every GPU that was ever seen, by uuid: who it was, for when it can no longer say.
        count_first: GPUs at the first look.
    """

    seen: Mapping[str, GpuReading] = field(default_factory=dict)
    histories: Mapping[str, GpuHistory] = field(default_factory=dict)
    count_first: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the machine should have.

    Attributes:
        gpus: set by the operator; None: as many as on the PCI bus, or as were seen first.
        gpus_on_bus: NVIDIA GPUs that the PCI bus lists; None: not known.
        boot_id: counters start anew with another one.
    """

    gpus: int | None = None
    gpus_on_bus: int | None = None
    boot_id: str = ""


def judge_machine(
    reading: MachineReading, memory: Memory, expected: Expected, at: datetime
) -> tuple[list[Observation], Memory]:
    """All observations of one look, and what is to be remembered for the next."""
    gpus = [_with_identity(gpu, reading, memory) for gpu in reading.gpus]
    of_peers = links_of_peers(gpus)
    epoch = f"{expected.boot_id}/{reading.driver_version}"
    told: list[Observation] = []
    seen, histories = dict(memory.seen), dict(memory.histories)
    for gpu in gpus:
        history = histories.get(gpu.uuid, GpuHistory())
        look, after = _look(gpu, history, of_peers.get(gpu.model, frozenset()), epoch, reading.whole, at)
        told += _observations(look, of_peers.get(gpu.model, frozenset()), whole=reading.whole)
        if gpu.uuid:
            histories[gpu.uuid] = after
            seen[gpu.uuid] = gpu if gpu.lost is None else seen.get(gpu.uuid, gpu)
    count_first = reading.count if memory.count_first is None else memory.count_first
    after_look = Memory(seen=seen, histories=histories, count_first=count_first)
    if reading.whole:
        told += _missing(gpus, reading.not_read, memory, at)
        told += _count(reading, after_look, expected, at)
    return told, after_look


def _with_identity(gpu: GpuReading, reading: MachineReading, memory: Memory) -> GpuReading:
    """A GPU that cannot say who it is, is the one that was at its index, unless that one answers elsewhere."""
    if gpu.uuid:
        return gpu
    answering = {other.uuid for other in reading.gpus if other.uuid}
    for known in memory.seen.values():
        if known.index == gpu.index and known.uuid not in answering:
            address = gpu.pci_bus_id or known.pci_bus_id
            return replace(gpu, uuid=known.uuid, pci_bus_id=address, identity=known.identity)
    return gpu


def _look(
    gpu: GpuReading,
    history: GpuHistory,
    of_peers: frozenset[int],
    epoch: str,
    whole: bool,
    at: datetime,
) -> tuple[GpuLook, GpuHistory]:
    counters, grown = history.counters, Growth(added={})
    if whole and gpu.lost is None:
        values = {name: gpu.numbers[name] for name in _COUNTERS if name in gpu.numbers} | link_counters(gpu)
        now = Counters(epoch=epoch, at=at, values=values)
        counters, grown = now, growth(history.counters, now)
    look = GpuLook(reading=gpu, history=history, growth=grown, at=at)
    thermal_since = history.software_thermal_since
    if "clock_reasons" in gpu.numbers:
        thermal_since = (thermal_since or at) if slowed_by_software(look) else None
    after = replace(history, counters=counters, software_thermal_since=thermal_since)
    if not whole or gpu.lost is not None:
        return look, after
    return look, replace(
        after,
        limits={name: gpu.numbers[name] for name in LIMITS if name in gpu.numbers},
        links_up=history.links_up | links_up(gpu),
        links_told=history.links_told | links_down(look, of_peers),
        generation_low=gpu_pcie_health.generation_is_low(look),
    )


def _observations(look: GpuLook, of_peers: frozenset[int], *, whole: bool) -> Iterator[Observation]:
    yield from gpu_state_health.presence(look)
    if look.reading.lost is not None:
        return
    yield from gpu_state_health.wish(look)
    yield from heat_health(look)
    if whole:
        yield from gpu_memory_health.memory_health(look)
        yield from gpu_pcie_health.pcie_health(look)
        yield from nvlink_health(look, of_peers)
        yield from gpu_state_health.fabric(look)
        yield from gpu_state_health.mig(look)
        yield from gpu_state_health.processes(look)


def _missing(gpus: list[GpuReading], not_read: frozenset[str], memory: Memory, at: datetime) -> Iterator[Observation]:
    listed = {gpu.uuid for gpu in gpus}
    for uuid, known in memory.seen.items():
        if uuid not in listed and known.pci_bus_id not in not_read:
            yield gpu_state_health.missing(GpuLook(reading=known, history=GpuHistory(), growth=Growth(added={}), at=at))


def _count(reading: MachineReading, memory: Memory, expected: Expected, at: datetime) -> Iterator[Observation]:
    if reading.count is None:
        return
    if expected.gpus is not None:
        wanted, why = expected.gpus, "set by the operator"
    else:
        by_first, on_bus = memory.count_first or 0, expected.gpus_on_bus or 0
        wanted, why = (on_bus, "on the PCI bus") if on_bus > by_first else (by_first, "here at the first look")
    bad = reading.count < wanted
    yield Observation(
        component=Component.HOST,
        check="gpu_count",
        health=Health.BAD if bad else Health.OK,
        detail=f"{reading.count} GPUs answer to NVML; {wanted} are expected ({why})",
        values={"gpus": float(reading.count), "gpus_expected": float(wanted)},
        observed_at=at,
    )
