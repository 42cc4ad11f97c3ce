"""The pool that a cluster's policy names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fault_contracts.cluster_policy import PoolPolicy
from recovery_planner.adapters.pool_kubernetes import KubernetesPool
from recovery_planner.adapters.pool_simulated import SimulatedCloud
from recovery_planner.adapters.pool_static import StaticPool
from recovery_planner.application.ports import NodeStandingStore
from recovery_planner.application.tending_ports import NodePool
from service_kit.ports import Clock

MakePool = Callable[[Callable[[str], bool]], NodePool | None]


def pool_of(policy: PoolPolicy, policy_file: Path | None, clock: Clock, nodes: NodeStandingStore) -> MakePool | None:
    """Makes the pool once it can be told which names are taken; None: there is no pool."""
    match policy.kind:
        case "static":
            folder = Path() if policy_file is None else policy_file.parent
            return lambda is_taken: StaticPool(folder / policy.file, is_taken=is_taken)
        case "simulated":
            return lambda _: SimulatedCloud(policy, clock=clock)
        case "kubernetes":
            return lambda _: KubernetesPool(nodes)
        case "none":
            return None
