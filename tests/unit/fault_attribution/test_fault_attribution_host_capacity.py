"""Readings of capacity: full disks, full memory, load, and requests that fit nowhere."""

from __future__ import annotations

import pytest

from fault_attribution.derive.host_capacity import amount, capacity
from fault_attribution.finding import Finding, Role


def _reading(kind: str, node: str = "n1", **captures: str) -> Finding:
    name = f"{kind}:{node}:{sorted(captures.items())}"
    return Finding(finding_id=name, kind=kind, role=Role.CONTEXT, node=node, captures=captures)


def _kinds(*findings: Finding) -> list[str]:
    return sorted(each.kind for each in capacity(findings))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512.0),
        ("7.3T", 7.3 * 2**40),
        ("501Gi", 501 * 2.0**30),
        ("0", 0.0),
        ("", None),
        ("many", None),
        ("..", None),
    ],
)
def test_amounts(text: str, value: float | None) -> None:
    assert amount(text) == value


def test_a_full_disk_is_found_and_a_roomy_one_is_said_to_be_roomy() -> None:
    assert _kinds(_reading("disk_reading", pct="100", mount="/data", filesystem="/dev/sdb1")) == ["disk_full"]
    assert _kinds(_reading("disk_reading", pct="61", mount="/data", filesystem="/dev/sdb1")) == ["disk_roomy"]
    both = _kinds(
        _reading("disk_reading", pct="100", mount="/data", filesystem="/dev/sdb1"),
        _reading("disk_reading", pct="10", mount="/", filesystem="/dev/sda1"),
    )
    assert both == ["disk_full"]


def test_a_read_only_image_is_full_by_nature() -> None:
    assert _kinds(_reading("disk_reading", pct="100", mount="/snap/core/1", filesystem="/dev/loop3")) == []


def test_memory_is_full_when_next_to_nothing_is_available() -> None:
    assert _kinds(_reading("memory_reading", total="503Gi", used="500Gi", available="1.4Gi")) == ["host_memory_full"]
    assert _kinds(_reading("memory_reading", total="503Gi", used="500Gi", available="300Gi")) == []
    assert _kinds(_reading("memory_reading", total="503.5 GiB", used="501.2")) == ["host_memory_full"]
    assert _kinds(_reading("memory_percent", pct="99.2")) == ["host_memory_full"]
    assert _kinds(_reading("memory_percent", pct="61")) == []


def test_load_is_judged_by_the_processors_of_the_same_node() -> None:
    load = _reading("cpu_load", load="812.1")
    assert _kinds(load, _reading("cpu_count", cpus="64")) == ["cpu_overloaded"]
    assert _kinds(load, _reading("cpu_count", node="n2", cpus="64")) == []
    assert _kinds(load) == []


def test_a_request_larger_than_every_node_known_can_never_start() -> None:
    job = _reading("slurm_pending", node="", job="1", cpus="64")
    small, large = _reading("slurm_node", cpus="62"), _reading("slurm_node", node="n2", cpus="96")
    (found,) = capacity([job, small])
    assert (found.kind, found.captures["asked"], found.captures["most"]) == ("request_exceeds_node", "64", "62")
    assert _kinds(job, small, large) == []


def test_a_request_for_several_nodes_is_spread_over_them() -> None:
    job = _reading("slurm_pending", node="", job="1", cpus="128", nodes="4")
    assert _kinds(job, _reading("slurm_node", cpus="62")) == []
