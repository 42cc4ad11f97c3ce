"""Rows of the board → the numbers that health-ingest holds against the peers of a device.

Of GPUs the values of `gpu_temperature` (temperature, power, load, clock) and `gpu_pcie_width` with
`gpu_pcie_generation`; of adapters those of `nic_rate`. What a row does not carry, and what is unknown, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fault_contracts.health import Component
from fault_contracts.measures import GPUS_MAX, LINKS_MAX, GpuMeasures, LinkKind, LinkMeasures
from fault_contracts.payload import Health
from node_agent.domain.observation import Observation

PCIE_GBPS_PER_LANE: Mapping[int, float] = {1: 2.0, 2: 4.0, 3: 7.877, 4: 15.754, 5: 31.508, 6: 60.5}
"""Gbit/s of one lane after line coding, by generation (PCI Express Base Specification 6.0: 2.5, 5, 8, 16, 32, 64 GT/s;
8b/10b for the first two, 128b/130b for the next three, flits for the last)."""
LOADED_PCT_MIN = 50.0
"""An idle GPU lets its PCIe generation drop; below this load the rate says nothing."""

Rows = Mapping[str, Observation]


def gpu_measures(rows: Iterable[Observation]) -> tuple[GpuMeasures, ...]:
    """One of each GPU that has a known temperature or clock."""
    found = [_gpu(name, of_gpu) for name, of_gpu in _by_device(rows).items() if "gpu_temperature" in of_gpu]
    return tuple(found[:GPUS_MAX])


def link_measures(rows: Iterable[Observation]) -> tuple[LinkMeasures, ...]:
    """PCIe of GPUs, and the rates of adapters. Of NVLink nobody tells a rate; links that are down are a check."""
    rows = tuple(rows)
    found: list[LinkMeasures] = []
    for name, of_gpu in _by_device(rows).items():
        found += _pcie(name, of_gpu)
    for row in rows:
        gbps = row.values.get("gbps")
        if row.check == "nic_rate" and row.health is not Health.UNKNOWN and gbps is not None:
            # Adapters of one model that are meant for the same rate are peers: a storage port is no peer of a fabric's.
            model = f"{row.attributes.get('model', '')} {row.values.get('expected_gbps', 0):g}".strip()
            found.append(
                LinkMeasures(kind=LinkKind.NIC, component_id=row.component_id, model=model[:256], rate_gbps=gbps)
            )
    return tuple(found[:LINKS_MAX])


def _by_device(rows: Iterable[Observation]) -> dict[str, dict[str, Observation]]:
    found: dict[str, dict[str, Observation]] = {}
    for row in rows:
        if row.component is Component.GPU and row.component_id and row.health is not Health.UNKNOWN:
            found.setdefault(row.component_id, {})[row.check] = row
    return found


def _gpu(name: str, of_gpu: Rows) -> GpuMeasures:
    row = of_gpu["gpu_temperature"]
    return GpuMeasures(
        gpu_uuid=name,
        model=row.attributes.get("name", ""),
        temperature_c=row.values.get("temperature_c"),
        power_w=row.values.get("power_w"),
        utilisation_pct=_utilisation_pct(of_gpu),
        sm_clock_mhz=row.values.get("sm_clock_mhz"),
    )


def _utilisation_pct(of_gpu: Rows) -> float | None:
    row = of_gpu.get("gpu_temperature")
    return None if row is None else row.values.get("utilization_percent")


def _pcie(name: str, of_gpu: Rows) -> list[LinkMeasures]:
    width, generation = of_gpu.get("gpu_pcie_width"), of_gpu.get("gpu_pcie_generation")
    if width is None or generation is None:
        return []
    lane_gbps = PCIE_GBPS_PER_LANE.get(int(generation.values.get("generation", 0)))
    lanes = width.values.get("width")
    if lane_gbps is None or lanes is None:
        return []
    return [
        LinkMeasures(
            kind=LinkKind.PCIE,
            component_id=name,
            model=width.attributes.get("name", ""),
            rate_gbps=lanes * lane_gbps,
            loaded=(_utilisation_pct(of_gpu) or 0.0) >= LOADED_PCT_MIN,
        )
    ]
