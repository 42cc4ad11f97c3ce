"""What of a report can be compared, and with whom."""

from datetime import UTC, datetime

from fault_contracts.health import Component
from fault_contracts.measures import GpuMeasures, LinkKind, LinkMeasures, MeasuresReported
from health_ingest.domain.peer_report import by_peers, comparables

AT = datetime(2026, 3, 14, tzinfo=UTC)


def report(gpus: tuple[GpuMeasures, ...] = (), links: tuple[LinkMeasures, ...] = ()) -> MeasuresReported:
    return MeasuresReported(node_id="n", instance_id="i", sweep=0, gpus=gpus, links=links, measured_at=AT)


def test_what_a_gpu_does_not_tell_is_not_compared() -> None:
    found = list(comparables(report(gpus=(GpuMeasures(gpu_uuid="GPU-0", temperature_c=50.0),))))
    assert [each.check for each in found] == ["gpu_temperature_outlier"]


def test_models_and_kinds_of_links_are_kept_apart() -> None:
    groups = by_peers(
        [
            report(
                gpus=(
                    GpuMeasures(gpu_uuid="a", model="H100", temperature_c=50.0),
                    GpuMeasures(gpu_uuid="b", model="A100", temperature_c=50.0),
                ),
                links=(
                    LinkMeasures(kind=LinkKind.NIC, component_id="mlx5_0", model="cx7", rate_gbps=400),
                    LinkMeasures(kind=LinkKind.PCIE, component_id="a", model="cx7", rate_gbps=512),
                ),
            )
        ]
    )
    assert len(groups) == 4


def test_a_link_that_rests_is_not_compared_and_links_of_a_gpu_are_conditions_of_their_own() -> None:
    found = list(
        comparables(
            report(
                links=(
                    LinkMeasures(kind=LinkKind.PCIE, component_id="GPU-0", rate_gbps=128, loaded=False),
                    LinkMeasures(kind=LinkKind.NVLINK, component_id="GPU-0", rate_gbps=3_600),
                    LinkMeasures(kind=LinkKind.NIC, component_id="mlx5_0", rate_gbps=400),
                )
            )
        )
    )
    assert [(each.component, each.component_id) for each in found] == [
        (Component.GPU, "GPU-0/nvlink"),
        (Component.NIC, "mlx5_0"),
    ]
