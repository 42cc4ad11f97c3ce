"""What of the board is told to be compared: known numbers only, with the load that they were measured under."""

from datetime import UTC, datetime

import pytest

from fault_contracts.health import Component
from fault_contracts.measures import LinkKind
from fault_contracts.payload import Health
from node_agent.domain.observation import Observation
from node_agent.domain.peer_measures import gpu_measures, link_measures

AT = datetime(2026, 3, 14, tzinfo=UTC)


def row(
    check: str,
    values: dict[str, float],
    *,
    device: str = "GPU-0",
    component: Component = Component.GPU,
    health: Health = Health.OK,
    **attributes: str,
) -> Observation:
    return Observation(
        component=component,
        component_id=device,
        check=check,
        health=health,
        values=values,
        attributes=attributes,
        observed_at=AT,
    )


HEAT = {"temperature_c": 61.0, "power_w": 688.0, "utilization_percent": 99.0, "slowdown_c": 90.0}


def test_a_gpu_tells_its_heat_load_and_model() -> None:
    (gpu,) = gpu_measures([row("gpu_temperature", HEAT, name="H100"), row("gpu_mig", {})])
    assert (gpu.gpu_uuid, gpu.model) == ("GPU-0", "H100")
    assert (gpu.temperature_c, gpu.power_w, gpu.utilisation_pct, gpu.sm_clock_mhz) == (61.0, 688.0, 99.0, None)


def test_a_hot_gpu_is_told_and_an_unknown_one_is_not() -> None:
    rows = [
        row("gpu_temperature", HEAT, health=Health.BAD),
        row("gpu_temperature", HEAT, device="GPU-1", health=Health.UNKNOWN),
        row("gpu_lost", {}, device="GPU-2", health=Health.BAD),
    ]
    assert [gpu.gpu_uuid for gpu in gpu_measures(rows)] == ["GPU-0"]


@pytest.mark.parametrize(("load", "loaded"), [(99.0, True), (3.0, False), (None, False)])
def test_a_pcie_rate_counts_under_load_only(load: float | None, loaded: bool) -> None:
    heat = {"temperature_c": 61.0} if load is None else {"temperature_c": 61.0, "utilization_percent": load}
    rows = [
        row("gpu_temperature", heat),
        row("gpu_pcie_width", {"width": 16.0}),
        row("gpu_pcie_generation", {"generation": 5.0}),
    ]
    (link,) = link_measures(rows)
    assert (link.kind, link.component_id, link.loaded) == (LinkKind.PCIE, "GPU-0", loaded)
    assert link.rate_gbps == pytest.approx(504.1, abs=0.1)


def test_half_a_link_or_a_generation_nobody_knows_tells_nothing() -> None:
    assert link_measures([row("gpu_pcie_width", {"width": 16.0})]) == ()
    assert (
        link_measures([row("gpu_pcie_width", {"width": 16.0}), row("gpu_pcie_generation", {"generation": 9.0})]) == ()
    )


def test_adapters_meant_for_another_rate_are_no_peers() -> None:
    nic = {"component": Component.NIC}
    rows = [
        row("nic_rate", {"gbps": 200.0, "expected_gbps": 400.0}, device="mlx5_0", health=Health.BAD, **nic),
        row("nic_rate", {"gbps": 100.0, "expected_gbps": 100.0}, device="mlx5_8", **nic),
        row("nic_rate", {"gbps": 400.0}, device="mlx5_9", health=Health.UNKNOWN, **nic),
    ]
    first, second = link_measures(rows)
    assert (first.component_id, first.rate_gbps) == ("mlx5_0", 200.0)
    assert first.model != second.model
