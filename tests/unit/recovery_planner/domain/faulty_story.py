"""A story in which devices fail: conditions of nodes, and standings that health-ingest keeps."""

from planner_story import JOB, Story

from fault_contracts.faults import Action, Attribution
from fault_contracts.health import Component, ConditionRaised, DeviceEvidence, Tier
from recovery_planner.domain.member import Member
from recovery_planner.domain.node_faults import NodeFaultCleared, NodeFaultSeen
from recovery_planner.domain.node_fit import NodeFit
from recovery_planner.domain.node_fitness import NodeStandingSeen
from recovery_planner.domain.step import Step

XID_79 = "GPU has fallen off the bus"
__all__ = ["JOB", "XID_79", "FaultyStory"]


class FaultyStory(Story):
    """Fits are what the planner has read; conditions come by themselves."""

    def know(self, node: str, *, held: str = "", doubt: str = "", tended: bool = False) -> None:
        """A standing was read or has changed."""
        self.fits[node] = NodeFit(held=held, doubt=doubt, tended=tended)
        if self.state is not None:
            self.feed(NodeStandingSeen(node_id=node))

    def device_fails(
        self,
        node: str,
        condition_id: str = "cond-1",
        *,
        action: Action = Action.REPLACE_NODE,
        origin: Attribution = Attribution.HARDWARE,
        sympathetic: bool = False,
        evidence: bool = True,
    ) -> Step:
        device = DeviceEvidence(
            gpu_uuid=f"GPU-{node}", xid=79, rule_id="xid.79", origin=origin, action=action, sympathetic=sympathetic
        )
        return self.feed(
            NodeFaultSeen(
                condition=ConditionRaised(
                    condition_id=condition_id,
                    node_id=node,
                    component=Component.GPU,
                    component_id=f"GPU-{node}",
                    check="xid_79",
                    tier=Tier.FAILURE,
                    reason=XID_79,
                    device=device if evidence else None,
                    raised_at=self.now,
                )
            )
        )

    def device_is_well(self, node: str, condition_id: str = "cond-1") -> Step:
        return self.feed(NodeFaultCleared(node_id=node, condition_id=condition_id, sentence="good for a while"))

    def member(self, node: str) -> Member:
        return self.gang.members[node]
