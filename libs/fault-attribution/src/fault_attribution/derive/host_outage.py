"""What became of machines: gone, gone and back, rebooted by somebody, rebooted by nobody, many at once.

Derived:

    node_came_back          a node that was lost is heard of again
    reboot_ordered          a node shut down in order, or somebody is known to have rebooted it
    reboot_unexplained      a node started again, or was rebooted, and nothing says who or what did it
    remediation_unfounded   remediation software rebooted a node of which no device says anything in its own log
    remediation_repeated    remediation software rebooted a node again after it had been returned to work
    many_nodes_lost         several nodes were lost in one incident; captures lost
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fault_attribution.derive.following import following
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role

LOST_KINDS = frozenset({"node_not_ready", "node_silent", "node_taint_eviction", "heartbeat_lost"})
_ORDERED = frozenset({"orderly_shutdown", "admin_reboot", "remediation_reboot", "cloud_maintenance", "node_shutdown"})
_EXPLAINED = _ORDERED | {
    "kernel_panic", "kernel_bug", "power_lost", "watchdog_reset", "hard_lockup", "machine_hardware_event",
    "power_supply_failed", "spot_reclaimed", "mce", "oom_kill",
}  # fmt: skip
_DEVICE_PREFIXES = ("xid_", "sxid_", "gpu_", "nvlink_", "pcie_aer", "pcie_link", "mce", "memory_ecc")
"""What a device or the kernel says of a device; only the machine's own log counts, not what was reported of it."""
READS = LOST_KINDS | _ORDERED | {"kernel_started", "node_rebooted"}
MANY_NODES = 2


def outages(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    lost = _by_node(findings, LOST_KINDS)
    ready = _by_node(findings, {"node_ready", "node_returned"})
    for node in sorted(lost.keys() & ready.keys()):
        yield _told(ready[node][0], "node_came_back", Role.CONTEXT, f"{node} is heard of again", lost[node])
    if len(lost) >= MANY_NODES:
        first = [found[0] for _, found in sorted(lost.items())]
        text = f"{len(lost)} nodes were lost: {', '.join(sorted(lost))}"
        told = _told(first[0], "many_nodes_lost", Role.CONTEXT, text, first)
        yield replace(told, node="", rank=None, captures={"lost": str(len(lost))})
    yield from _reboots(findings)
    yield from _remediation(findings)


def _reboots(findings: Sequence[Finding]) -> Iterator[Finding]:
    ordered = _by_node(findings, _ORDERED)
    explained = _by_node(findings, _EXPLAINED)
    started = _by_node(findings, {"kernel_started", "node_rebooted"})
    for node, found in sorted(ordered.items()):
        yield _told(found[0], "reboot_ordered", Role.CONTEXT, f"{node} was shut down in order: {found[0].text}", found)
    for node, found in sorted(started.items()):
        if node not in explained and _started_again(found, findings, node):
            text = f"{node} started again and nothing says why"
            yield _told(found[0], "reboot_unexplained", Role.CAUSE, text, found)


def _started_again(found: Sequence[Finding], findings: Sequence[Finding], node: str) -> bool:
    """A boot at the head of a log is where every log begins; one with something before it in the log is a reboot."""
    for each in found:
        if each.kind == "node_rebooted":
            return True
        before = (
            one
            for one in findings
            if (one.node, one.stream, one.source) == (node, each.stream, each.source) and one.kind != each.kind
        )
        if any(one.number < each.number for one in before):
            return True
    return False


def _remediation(findings: Sequence[Finding]) -> Iterator[Finding]:
    told_of = {
        each.node
        for each in findings
        if each.source in (Source.KMSG, Source.NVML) and each.kind.startswith(_DEVICE_PREFIXES)
        and each.role in (Role.CAUSE, Role.SYMPTOM)
    }  # fmt: skip
    orders = _by_node(findings, {"remediation_reboot"})
    back = _by_node(findings, {"node_returned", "pod_assigned"})
    for node, found in sorted(orders.items()):
        if node not in told_of:
            text = f"{node} was rebooted by remediation software, and no device of it says anything in its own log"
            yield _told(found[0], "remediation_unfounded", Role.CAUSE, text, found)
        if sum(each.count for each in found) > 1 and node in back:
            text = f"{node} was rebooted again after it had been returned to work"
            yield _told(found[-1], "remediation_repeated", Role.CAUSE, text, [*found, *back[node]])


def _by_node(findings: Sequence[Finding], kinds: frozenset[str] | set[str]) -> dict[str, list[Finding]]:
    # A controller's line is about the node that it names, wherever it was read.
    found: dict[str, list[Finding]] = {}
    for each in sorted(findings, key=lambda one: one.place):
        node = each.captures.get("node") or each.node
        if each.kind in kinds and node:
            found.setdefault(node, []).append(each)
    return found


def _told(base: Finding, kind: str, role: Role, text: str, rests_on: Sequence[Finding]) -> Finding:
    return following(base, kind, text, rule_id="derive.host_outage", role=role, rests_on=rests_on)
