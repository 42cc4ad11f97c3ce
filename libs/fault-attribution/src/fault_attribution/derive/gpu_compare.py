"""Machines compared: the same measurement on several nodes, of which one is slower than the rest.

Derived:

    slow_in_benchmark   a node that is worse in a measurement than the others; captures percent, value, typical
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median

from fault_attribution.derive.gpu_readings import told
from fault_attribution.finding import Finding, Role

READS = frozenset({"benchmark"})
SLOWER_MIN = 0.02
"""Equal GPUs under an equal load differ by about one per cent; a collective waits for the slowest."""
NODES_MAX = 4_096
_DIGITS = re.compile(r"\d+")
_TIMES = frozenset({"s", "sec", "seconds", "ms"})


def gpu_compare(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    measured: dict[tuple[str, str], dict[str, list[tuple[float, Finding]]]] = {}
    for each in findings:
        value = each.number_of("value") if each.kind == "benchmark" else None
        if value is None or value <= 0 or not each.node:
            continue
        name = _DIGITS.sub("", each.captures.get("name", "")).strip().lower()
        nodes = measured.setdefault((name, each.captures.get("unit", "").lower()), {})
        if each.node in nodes or len(nodes) < NODES_MAX:
            nodes.setdefault(each.node, []).append((value, each))
    for (_, unit), nodes in sorted(measured.items()):
        yield from _slowest(nodes, in_time=unit in _TIMES)


def _slowest(nodes: dict[str, list[tuple[float, Finding]]], *, in_time: bool) -> Iterator[Finding]:
    """The node that is worst, when it is clearly worse than the typical other one."""
    if len(nodes) < 2:
        return
    worst_of = max if in_time else min
    worst = {node: worst_of(readings, key=lambda one: one[0]) for node, readings in nodes.items()}
    slow = worst_of(sorted(worst), key=lambda node: worst[node][0])
    value, base = worst[slow]
    # Of two nodes the other one is typical; of more the middle one, so that one fast node makes no other one slow.
    typical = median(reading for node, (reading, _) in worst.items() if node != slow or len(worst) > 2)
    slower = value / typical - 1 if in_time else 1 - value / typical
    if slower >= SLOWER_MIN:
        text = f"{slow} is {slower:.1%} slower in a measurement than the others"
        yield told(base, "slow_in_benchmark", Role.CAUSE, text, percent=f"{100 * slower:.1f}", typical=f"{typical:g}")
