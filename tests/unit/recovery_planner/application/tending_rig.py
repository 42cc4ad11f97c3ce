"""Host roles, a ledger and standings beside the planner rig: whatever the care of nodes talks to, by hand."""

import asyncio
import json
from collections.abc import Callable

from planner_rig import JOB, Rig

from fault_contracts.cluster_policy import ClusterPolicy, LadderPolicy
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.hardware import NodeStanding, NodeStandingChanged
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported, OrderNodeAction
from fault_contracts.payload import Health, Reason
from fault_contracts.registry import Stream
from fault_contracts.remediation import NodePhase, NodeTended
from recovery_planner.adapters.kv_lives import KvNodeLives
from recovery_planner.domain.node_life import NodeLife
from service_kit.errors import TransientError
from service_kit.ports import Delivery
from service_kit.testing.memory_bus import MemoryBus

LADDER = ClusterPolicy(ladder=LadderPolicy(rounds_min=2, retry_s=5))
Rule = Callable[[OrderNodeAction], ActionOutcome]


def all_well(order: OrderNodeAction) -> ActionOutcome:
    """Everything succeeds."""
    del order
    return ActionOutcome.DONE


class Hosts:
    """The host roles of all machines: each order is obeyed once, and answered."""

    def __init__(self, rig: Rig, rule: Rule = all_well) -> None:
        self.rig, self.rule = rig, rule
        self.bus = MemoryBus(rig.broker, name="hosts")
        self.done: list[OrderNodeAction] = []
        self.known: dict[str, NodeActionReported] = {}
        self.begun: set[str] = set()
        self.harm: list[str] = []
        self.took_s = 2.0

    async def begin(self) -> "Hosts":
        self._looking = asyncio.create_task(self._look(), name="hosts look")
        await self.bus.listen(messages=[OrderNodeAction], handler=self._pushed)
        await self.bus.answer(what="hardware_change", key="ledger", reply=self._ledger)
        self.listed: list[str] = []
        return self

    async def _pushed(self, delivery: Delivery) -> None:
        order = delivery.envelope.data
        if order.operation_id in self.known:
            await self._answer(self.known[order.operation_id], "again")
            return
        node = self.rig.nodes.get(order.node_id)
        if order.action is not NodeAction.VALIDATE and node is not None and node.running is not None:
            self.harm.append(f"{order.action} of {order.node_id} while version {node.running} runs there")
        if order.operation_id in self.begun:
            return
        self.begun.add(order.operation_id)
        self.done.append(order)
        await asyncio.sleep(0)
        await self.rig.clock.sleep(self.took_s)
        outcome = self.rule(order)
        rule_id = "node_action.busy" if outcome is ActionOutcome.REFUSED else "node_action.command"
        report = NodeActionReported(
            node_id=order.node_id,
            instance_id="host-1",
            operation_id=order.operation_id,
            action=order.action,
            outcome=outcome,
            gpu_uuid=order.gpu_uuid,
            reason=Reason(rule_id=rule_id, sentence="as ordered"),
            finished_at=self.rig.clock.now(),
        )
        self.known[order.operation_id] = report
        await self._answer(report, "first")

    async def _look(self) -> None:
        """As a host role does: a push can be lost."""
        while True:
            await self.rig.clock.sleep(15)
            for node_id in list(self.rig.nodes):
                try:
                    found = await self.bus.last_commands(key=node_id, messages=[OrderNodeAction])
                except TransientError:
                    continue
                for delivery in found:
                    order = delivery.envelope.data
                    if order.operation_id not in self.begun and order.expires_at > self.rig.clock.now():
                        await self._pushed(delivery)

    async def _answer(self, report: NodeActionReported, ordinal: str) -> None:
        await self.rig.publish(self.bus, report, cause=report.operation_id, ordinal=ordinal)

    async def _ledger(self, body: bytes) -> bytes:
        self.listed.append(json.loads(body)["device_id"])
        return json.dumps({"ok": True, "error": "", "changed": True, "entries": []}).encode()

    def actions(self, node_id: str) -> list[str]:
        """What was done to a node, in order."""
        return [str(order.action) for order in self.done if order.node_id == node_id]


async def stands(rig: Rig, node_id: str, *, uuid: str, serial: str = "", fit: Health = Health.OK) -> None:
    """health-ingest writes a standing, and tells of it."""
    device = DeviceIdentity(
        kind=DeviceKind.GPU, device_id=uuid, board_serial=serial, pci_vendor_data="10de:2330" if serial else ""
    )
    old = await rig.standings.get(node_id)
    version = 1 if old is None else json.loads(old.value)["standing"]["version"] + 1
    now = rig.clock.now()
    standing = NodeStanding(
        node_id=node_id, fit=fit, devices=(device,), inventory_at=now, boot_id="boot-1", version=version
    )
    raw = json.dumps({"v": 1, "standing": standing.model_dump(mode="json")}).encode()
    if old is None:
        await rig.standings.create(node_id, raw)
    else:
        await rig.standings.update(node_id, raw, old.revision)
    bus = MemoryBus(rig.broker, name=f"ingest-{node_id}-{version}")
    changed = NodeStandingChanged(node_id=node_id, standing=standing, changed_at=now)
    await rig.publish(bus, changed, cause=node_id, ordinal=version)


async def blames(
    rig: Rig,
    node_id: str,
    action: Action,
    *,
    version: int = 1,
    gpu: str = "GPU-a",
    fault_id: str = "",
    attribution: Attribution = Attribution.HARDWARE,
    supersedes: str | None = None,
    cause: str = "gpu_memory",
) -> None:
    """The classifier's final word on a generation."""
    fault_id = fault_id or f"fault-{node_id}-{version}"
    verdict = FaultClassified(
        fault_id=fault_id,
        job_id=JOB,
        topology_version=version,
        attribution=attribution,
        cause=cause,
        culprit=Culprit(node_id=node_id, gpu_uuid=gpu or None),
        confidence=0.9,
        action=action,
        reasons=(Reason(rule_id="judge", sentence="a GPU of it failed"),),
        summary="",
        supersedes=supersedes,
        classified_at=rig.clock.now(),
    )
    bus = MemoryBus(rig.broker, name=f"judge-{fault_id}")
    await rig.publish(bus, verdict, cause=fault_id, ordinal=1)


async def life_of(rig: Rig, node_id: str) -> NodeLife | None:
    """The record as stored."""
    stored = await KvNodeLives(rig.remedies).load(node_id)
    return None if stored is None else stored.life


async def until(rig: Rig, node_id: str, phase: NodePhase, limit_s: float = 900.0) -> NodeLife:
    """The record once it is in a phase and owes nothing."""
    end_s = rig.clock.monotonic_s() + limit_s
    life = None
    while rig.clock.monotonic_s() < end_s:
        life = await life_of(rig, node_id)
        if life is not None and life.phase is phase and not life.pending:
            return life
        await rig.clock.sleep(0.5)
    raise AssertionError(f"{node_id} is not {phase} after {limit_s:g} s: {life}")


async def ask(rig: Rig, verb: str, node_id: str, **more: str) -> dict[str, object]:
    """A person asks."""
    asked = {"verb": verb, "node_id": node_id, "by": "alice", "reason": "fans are loud", **more}
    bus = MemoryBus(rig.broker, name="person")
    said = await bus.ask(what="tend", key="leader", body=json.dumps(asked).encode(), timeout_s=5)
    assert said is not None
    return dict(json.loads(said))


def told(rig: Rig, node_id: str) -> list[str]:
    """The journal of a node: phases, and what was withheld."""
    found = [d.envelope.data for d in rig.broker.stored(Stream.JOURNAL) if isinstance(d.envelope.data, NodeTended)]
    return [f"{each.phase}{':' + each.withheld_by if each.withheld_by else ''}" for each in found
            if each.node_id == node_id and (each.phase is not each.before or each.withheld_by)]  # fmt: skip
