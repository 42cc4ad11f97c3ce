"""How many nodes are in which phase of their care, and whether the breaker is open: for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Gauge

from fault_contracts.remediation import BreakerState, NodePhase

NODES = Gauge("phalanx_nodes_in_care", "Nodes by phase of remediation", ("phase",))
BREAKER = Gauge("phalanx_node_breaker", "1 for the breaker's present state", ("state",))


class NodeGauges:
    """tending_ports.NodeFigures on the process's registry. All labels are shown from the start: 0 is a figure too."""

    def __init__(self) -> None:
        self.show({}, str(BreakerState.CLOSED))

    def show(self, phases: Mapping[str, int], breaker: str) -> None:
        """See the port."""
        for phase in NodePhase:
            NODES.labels(phase=str(phase)).set(phases.get(str(phase), 0))
        for state in BreakerState:
            BREAKER.labels(state=str(state)).set(1 if str(state) == breaker else 0)
