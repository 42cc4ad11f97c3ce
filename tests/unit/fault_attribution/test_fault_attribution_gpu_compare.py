"""Machines compared by one measurement."""

from __future__ import annotations

import pytest

from fault_attribution.derive.gpu_compare import gpu_compare
from fault_attribution.finding import Finding, Role


def _measured(node: str, value: str, unit: str = "s", name: str = "gpu benchmark") -> Finding:
    captures = {"name": name, "value": value, "unit": unit}
    return Finding(finding_id=node, kind="benchmark", role=Role.CONTEXT, node=node, captures=captures, text=node)


@pytest.mark.parametrize(
    ("unit", "values", "slow"),
    [
        ("s", {"a": "303.6", "b": "296.4"}, ["a"]),
        ("s", {"a": "297.0", "b": "296.4"}, []),
        ("TFLOPS", {"a": "380", "b": "412", "c": "411"}, ["a"]),
        ("TFLOPS", {"a": "450", "b": "412", "c": "411"}, []),
        ("s", {"a": "300"}, []),
        ("s", {"a": "0", "b": "296"}, []),
    ],
)
def test_the_slowest_node_is_named_when_it_is_clearly_slower(
    unit: str, values: dict[str, str], slow: list[str]
) -> None:
    found = gpu_compare([_measured(node, value, unit) for node, value in values.items()])
    assert [each.node for each in found] == slow


def test_different_measurements_are_not_compared() -> None:
    assert not list(gpu_compare([_measured("a", "300"), _measured("b", "100", name="nccl test")]))
