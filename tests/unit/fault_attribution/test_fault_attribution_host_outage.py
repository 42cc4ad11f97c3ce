"""What became of machines."""

from __future__ import annotations

from fault_attribution.derive.host_outage import outages
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role


def _seen(
    kind: str, node: str = "n1", number: int = 0, source: Source = Source.K8S, role: Role = Role.CAUSE
) -> Finding:
    return Finding(
        finding_id=f"{kind}:{node}:{number}", kind=kind, role=role, node=node, source=source, stream="s", number=number
    )


def _kinds(*findings: Finding) -> list[str]:
    return sorted(each.kind for each in outages(findings))


def test_a_node_that_is_lost_and_heard_of_again_came_back() -> None:
    assert _kinds(_seen("node_not_ready"), _seen("node_ready", number=1)) == ["node_came_back"]
    assert _kinds(_seen("node_not_ready"), _seen("node_ready", "n2", 1)) == []


def test_several_lost_nodes_are_one_fact() -> None:
    found = list(outages([_seen("node_not_ready"), _seen("node_silent", "n2", 1)]))
    assert [(each.kind, each.captures["lost"], each.node) for each in found] == [("many_nodes_lost", "2", "")]


def test_shutdown_lines_mean_that_somebody_told_it_to() -> None:
    assert _kinds(_seen("orderly_shutdown", source=Source.KMSG), _seen("kernel_started", number=2)) == [
        "reboot_ordered"
    ]


def test_a_start_in_the_middle_of_a_log_with_no_reason_is_unexplained() -> None:
    before = _seen("step_done", number=1, source=Source.KMSG)
    start = _seen("kernel_started", number=2, source=Source.KMSG)
    assert _kinds(before, start) == ["reboot_unexplained"]
    assert _kinds(start, _seen("step_done", number=3, source=Source.KMSG)) == []
    assert _kinds(before, start, _seen("kernel_panic", number=1, source=Source.KMSG)) == []


def test_remediation_without_a_word_of_the_devices_is_unfounded() -> None:
    order = _seen("remediation_reboot", number=1)
    assert _kinds(order) == ["reboot_ordered", "remediation_unfounded"]
    device = _seen("xid_79", number=0, source=Source.KMSG)
    assert _kinds(device, order) == ["reboot_ordered"]
    reported = _seen("xid_79", number=0, source=Source.K8S)
    assert "remediation_unfounded" in _kinds(reported, order)


def test_remediation_again_after_the_node_was_returned() -> None:
    kinds = _kinds(
        _seen("remediation_reboot", number=1), _seen("node_returned", number=2), _seen("remediation_reboot", number=3)
    )
    assert "remediation_repeated" in kinds
    assert "remediation_repeated" not in _kinds(_seen("remediation_reboot"), _seen("node_returned", number=2))


def test_the_order_of_findings_changes_nothing() -> None:
    findings = [
        _seen("remediation_reboot", number=1),
        _seen("node_returned", number=2),
        _seen("remediation_reboot", number=3),
        _seen("node_not_ready", number=4),
        _seen("node_not_ready", "n2", 5),
    ]
    assert {each.finding_id for each in outages(findings)} == {each.finding_id for each in outages(findings[::-1])}
