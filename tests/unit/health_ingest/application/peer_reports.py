"""Measures for the tests of peers: nodes of eight GPUs that all do the same."""

from __future__ import annotations

from datetime import UTC, datetime

from fault_contracts.measures import GpuMeasures, MeasuresReported

AT = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
MODEL = "NVIDIA H100 80GB HBM3"


def a_gpu(node_id: str, index: int, **changed: float | str | None) -> GpuMeasures:
    """A GPU at work; GPUs differ by a few degrees, as they do."""
    values: dict[str, object] = {
        "gpu_uuid": f"GPU-{node_id}-{index}",
        "model": MODEL,
        "temperature_c": 60.0 + index % 4,
        "power_w": 680.0 + index,
        "utilisation_pct": 99.0,
        "sm_clock_mhz": 1_755.0 - 5 * (index % 3),
    }
    return GpuMeasures.model_validate(values | changed)


def a_report(
    sweep: int = 0,
    *,
    node_id: str = "n0",
    instance_id: str = "i",
    gpus: tuple[GpuMeasures, ...] | None = None,
    **of_3: float,
) -> MeasuresReported:
    """One sweep of a node; `of_3` changes what GPU 3 measures."""
    own = tuple(a_gpu(node_id, index, **(of_3 if index == 3 else {})) for index in range(8))
    return MeasuresReported(
        node_id=node_id, instance_id="i", sweep=sweep, gpus=own if gpus is None else gpus, measured_at=AT
    )
