"""A job told as a story in which nodes give notice, and agents act alone."""

from __future__ import annotations

from datetime import timedelta

from planner_story import JOB, Story

from fault_contracts.agent import CheckpointReported
from fault_contracts.lone_agent import AgentActedAlone
from fault_contracts.payload import Reason
from fault_contracts.preemption import PreemptionNoticed
from recovery_planner.domain.checkpoint_history import record
from recovery_planner.domain.node_fit import NodeFit
from recovery_planner.domain.node_fitness import NodeStandingSeen
from recovery_planner.domain.preemption import NodeWithdrawn
from recovery_planner.domain.step import DeadlineExpired, Step


class NoticeStory(Story):
    """A Story with a few more events."""

    def confirm(self, number: int, *ranks: int, writers: int | None = None) -> None:
        """Ranks confirm a checkpoint, one after the other, and the gang is told of each."""
        for rank in ranks:
            report = CheckpointReported(
                node_id="any",
                job_id=JOB,
                topology_version=self.gang.table.topology_version,
                rank=rank,
                step=number,
                path=f"/ckpt/{number}",
                writers=writers,
                saved_at=self.now,
            )
            world_size = self.gang.world_size_at(report.topology_version)
            self.history = record(self.history, report, world_size=world_size)
            self.feed(report)

    def notice(self, node: str, *, at_step: int = 20, within_s: float = 30.0, version: int | None = None) -> Step:
        """The agent of a node was told to go."""
        return self.feed(
            PreemptionNoticed(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                topology_version=version or self.gang.table.topology_version,
                at_step=at_step,
                within_s=within_s,
                reason="SIGTERM to the agent",
                noticed_at=self.now,
            )
        )

    def act_alone(self, node: str, *, version: int | None = None) -> Step:
        """The agent of a node heard no planner and stopped its ranks."""
        return self.feed(
            AgentActedAlone(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                topology_version=version or self.gang.table.topology_version,
                policy="keep",
                silent_s=61.0,
                stuck_pids=(4711,),
                reason=Reason(rule_id="dead_man.broken", sentence="no planner was heard for 61 s"),
                acted_at=self.now,
            )
        )

    def tick(self) -> Step:
        """Time has passed."""
        return self.feed(DeadlineExpired())

    def withdraw(self, node: str, *, within_s: float = 60.0) -> Step:
        """Its operator wants a node that is held."""
        self.fits[node] = NodeFit(held="draining: new cable", tended=True)
        self.feed(NodeStandingSeen(node_id=node))
        by = self.now + timedelta(seconds=within_s)
        return self.feed(NodeWithdrawn(node_id=node, by=by, sentence="alice: new cable"))
