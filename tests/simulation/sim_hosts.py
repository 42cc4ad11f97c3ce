"""The machines: each with a host role that obeys orders by node_agent's own fence, and a cloud that they come from.

What is left out of the real ones: what a reset or a boot does to a device beyond the end of its conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sim_events import HostActs

from fault_contracts.cluster_policy import PoolPolicy
from fault_contracts.inventory import DeviceIdentity, DeviceKind, InventoryReported
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported, OrderNodeAction
from fault_contracts.payload import Reason
from node_agent.domain.node_action import ActionRuling, NodeFacts, judge_action
from recovery_planner.adapters.pool_simulated import SimulatedCloud
from recovery_planner.application.tending_ports import PoolAnswer
from service_kit.errors import TransientError
from service_kit.ports import Delivery
from service_kit.testing.memory_bus import MemoryBus

if TYPE_CHECKING:
    from sim_world import World

LOOK_S = 15.0
BOOT_S = 4.0
VENDOR = "10de:2330"


class Host:
    """One machine. Its GPU may get another name with another node; its board never."""

    def __init__(self, world: World, job: str, node_id: str, board: str) -> None:
        self.world, self.job, self.node_id, self.board = world, job, node_id, board
        self.boots = 1
        self.fail_actions = 0
        self.bus = MemoryBus(world.broker, name=f"host-{node_id}")
        self._known: dict[str, NodeActionReported | None] = {}
        self._busy = ""

    @property
    def boot_id(self) -> str:
        """Of the boot it is in."""
        return f"boot-{self.boots}"

    @property
    def is_there(self) -> bool:
        """The machine is on."""
        return self.node_id not in self.world.gone

    def report(self) -> None:
        """What is built in."""
        gpu = DeviceIdentity(
            kind=DeviceKind.GPU,
            device_id=gpu_of(self.node_id),
            board_serial=self.board,
            pci_vendor_data=VENDOR,
            pci_bus_id="0000:1b:00",
        )
        self.world.tell(
            InventoryReported(
                node_id=self.node_id,
                instance_id=f"{self.node_id}-host",
                boot_id=self.boot_id,
                devices=(gpu,),
                reported_at=self.world.clock.now(),
            )
        )

    async def run(self) -> None:
        """Listen for orders, and look: a push can be lost."""
        while True:
            try:
                await self.bus.listen(messages=[OrderNodeAction], handler=self._pushed, key=self.node_id)
                break
            except TransientError:
                await self.world.clock.sleep(1.0)
        while self.is_there:
            await self.world.clock.sleep(LOOK_S)
            try:
                found = await self.bus.last_commands(key=self.node_id, messages=[OrderNodeAction])
            except TransientError:
                continue
            for delivery in found:
                if delivery.envelope.data.operation_id not in self._known:
                    await self._pushed(delivery)

    async def _pushed(self, delivery: Delivery) -> None:
        order: OrderNodeAction = delivery.envelope.data
        if not self.is_there:
            return
        if order.operation_id in self._known:
            if (known := self._known[order.operation_id]) is not None:
                self._say(known, "again")
            return
        facts = NodeFacts(
            node_id=self.node_id,
            instance_id=f"{self.node_id}-host",
            boot_id=self.boot_id,
            allowed=tuple(NodeAction),
            impossible={},
            gpu_uuids=(gpu_of(self.node_id),),
            busy_with=self._busy,
        )
        judged = judge_action(order, facts, now=self.world.clock.now())
        if judged.ruling is not ActionRuling.RUN:
            self._end(order, ActionOutcome.REFUSED, judged.reason)
            return
        self._known[order.operation_id], self._busy = None, order.operation_id
        self.world.saw(HostActs(node_id=self.node_id, action=str(order.action), harm=self.harm()))
        self.world.spawn(self._act(order))

    def harm(self) -> str:
        """Ranks that run here and that the job's record counts on; empty: none do."""
        agent = self.world.agents.get(self.node_id)
        gang = self.world.gangs.gangs.get(self.job)
        if agent is None or agent.dead or gang is None or not agent.version or "run" not in agent.ranks.values():
            return ""
        member = gang.members.get(self.node_id)
        known = member is not None and member.is_there and member.instance_id == agent.instance_id
        if not known or not gang.is_seated(self.node_id) or gang.table.topology_version != agent.version:
            return ""
        return f"version {agent.version} of {self.job} runs there"

    async def _act(self, order: OrderNodeAction) -> None:
        world = self.world
        await world.clock.sleep(world.dice.choice((0.3, 2.0, 6.0)))
        outcome = ActionOutcome.DONE
        if self.fail_actions:
            self.fail_actions -= 1
            outcome = ActionOutcome.FAILED
        elif order.action is NodeAction.REBOOT:
            agent = world.agents[self.node_id]
            agent.kill()
            await world.clock.sleep(BOOT_S)
            self.boots += 1
            if self.is_there:
                self.report()
                world.start_agent(agent.job, self.node_id)
        self._busy = ""
        if self.is_there:
            self._end(order, outcome, Reason(rule_id="node_action.command", sentence="as ordered"))

    def _end(self, order: OrderNodeAction, outcome: ActionOutcome, reason: Reason) -> None:
        report = NodeActionReported(
            node_id=self.node_id,
            instance_id=f"{self.node_id}-host",
            operation_id=order.operation_id,
            action=order.action,
            outcome=outcome,
            gpu_uuid=order.gpu_uuid,
            reason=reason,
            boot_id=self.boot_id,
            finished_at=self.world.clock.now(),
        )
        self._known[order.operation_id] = report
        self._say(report, "first")

    def _say(self, report: NodeActionReported, ordinal: str) -> None:
        self.world.tell(report, f"{report.operation_id}/{ordinal}")


class Cloud(SimulatedCloud):
    """The planner's own cloud for trials, which takes machines away and starts others."""

    def __init__(self, world: World, policy: PoolPolicy) -> None:
        super().__init__(policy, clock=world.clock, boot=self._comes)
        self._world = world
        self._for = ""

    async def retire(self, node_id: str, *, request_id: str, reason: str) -> None:
        """See the port."""
        world = self._world
        if node_id not in world.gone and node_id in world.hosts:
            world.saw(HostActs(node_id=node_id, action="retire", harm=world.hosts[node_id].harm()))
            world.gone.add(node_id)
            if (agent := world.agents.get(node_id)) is not None:
                agent.kill()
        await super().retire(node_id, request_id=request_id, reason=reason)

    async def acquire(self, *, request_id: str, labels: Mapping[str, str]) -> PoolAnswer:
        """See the port."""
        self._for = request_id
        return await super().acquire(request_id=request_id, labels=labels)

    def _comes(self, name: str, origin: str) -> None:
        world = self._world
        before = max((node for node in world.hosts if self._for.startswith(f"{node}-")), key=len)
        board = world.hosts[origin].board if origin else f"board-{name}"
        world.arrive(world.hosts[before].job, name, board)


def gpu_of(node_id: str) -> str:
    """The name of its one GPU."""
    return f"GPU-{node_id}"
