"""Some nodes under the planner's care, without a bus: what it orders is answered by hand or by a rule."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from fault_contracts.cluster_policy import ClusterPolicy, LadderPolicy
from fault_contracts.faults import Action
from fault_contracts.hardware import NodeStanding
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.node_actions import ActionOutcome, NodeActionReported, OrderNodeAction
from fault_contracts.payload import Health, Payload, Reason
from fault_contracts.remediation import NodePhase, NodeTended
from recovery_planner.domain.breaker import Breaker, Census
from recovery_planner.domain.known_bad import book_of, known_bad
from recovery_planner.domain.node_care import Around
from recovery_planner.domain.node_life import Blame, NodeLife
from recovery_planner.domain.node_remedy import ActionEnded
from recovery_planner.domain.node_story import NodeBlamed
from recovery_planner.domain.node_tend import NodeEvent, NodeLooked, new_life, tend

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LADDER = ClusterPolicy(ladder=LadderPolicy(rounds_min=2))
GPU = "GPU-1"


def blame(action: Action = Action.RESET_GPU, *, evidence_id: str = "fault-1", gpu_uuid: str = GPU) -> Blame:
    return Blame(
        evidence_id=evidence_id,
        action=action,
        cause="gpu_memory",
        sentence="a GPU failed",
        gpu_uuid=gpu_uuid,
        job_id="llm",
        fault_id=evidence_id,
    )


def standing(node_id: str = "n1", fit: Health = Health.OK, **fields: object) -> NodeStanding:
    gpu = DeviceIdentity(kind=DeviceKind.GPU, device_id=GPU, board_serial="S1", pci_vendor_data="10de:2330")
    told = {"devices": (gpu,), "boot_id": "boot-1", "inventory_at": NOON, **fields}
    return NodeStanding(node_id=node_id, fit=fit, **told)  # type: ignore[arg-type]


class Ward:
    """Records by node, the breaker, and everything that was published."""

    def __init__(self, policy: ClusterPolicy = LADDER, *, known: int = 20, pool: bool = False) -> None:
        self.policy, self.known, self.pool = policy, known, pool
        self.now = NOON
        self.breaker = Breaker()
        self.lives: dict[str, NodeLife] = {}
        self.standings: dict[str, NodeStanding] = {}
        self.occupied: dict[str, tuple[str, ...]] = {}
        self.told = True
        self.said: list[Payload] = []
        self.reasons: tuple[Reason, ...] = ()

    def census(self) -> Census:
        return Census(known=self.known, out=sum(life.counts_as_out for life in self.lives.values()))

    def feed(self, event: NodeEvent, node_id: str = "n1", cause_id: str = "") -> NodeLife:
        life = self.lives.get(node_id) or new_life(node_id, self.now)
        found = self.standings.get(node_id)
        around = Around(
            census=self.census(),
            occupied_by=self.occupied.get(node_id, ()),
            standing=found,
            bad=known_bad(node_id, found, book_of(self.lives.values())),
            pool=self.pool,
            told=self.told,
        )
        done = tend(
            life,
            event,
            now=self.now,
            policy=self.policy,
            around=around,
            breaker=self.breaker,
            cause_id=cause_id,
        )
        self.said += [effect.payload for effect in done.life.pending]
        self.lives[node_id] = NodeLife(
            **{name: getattr(done.life, name) for name in NodeLife.__dataclass_fields__ if name != "pending"}
        )
        self.breaker, self.reasons = done.breaker, done.reasons
        return self.lives[node_id]

    def later(self, seconds: float, node_id: str = "n1") -> NodeLife:
        self.now += timedelta(seconds=seconds)
        return self.feed(NodeLooked(), node_id)

    def blamed(self, action: Action = Action.RESET_GPU, evidence_id: str = "fault-1", node_id: str = "n1") -> NodeLife:
        return self.feed(NodeBlamed(blame=blame(action, evidence_id=evidence_id)), node_id)

    @property
    def orders(self) -> list[OrderNodeAction]:
        return [each for each in self.said if isinstance(each, OrderNodeAction)]

    @property
    def journal(self) -> list[NodeTended]:
        return [each for each in self.said if isinstance(each, NodeTended)]

    def answer(
        self, outcome: ActionOutcome = ActionOutcome.DONE, rule_id: str = "node_action.command", node_id: str = "n1"
    ) -> NodeLife:
        """The host role answers the newest order of a node."""
        order = [each for each in self.orders if each.node_id == node_id][-1]
        report = NodeActionReported(
            node_id=node_id,
            instance_id="host-1",
            operation_id=order.operation_id,
            action=order.action,
            outcome=outcome,
            reason=Reason(rule_id=rule_id, sentence="as ordered"),
            finished_at=self.now,
        )
        return self.feed(ActionEnded(report=report), node_id)

    def through(self, outcomes: Sequence[ActionOutcome], node_id: str = "n1") -> NodeLife:
        """Answer one order after the other."""
        for outcome in outcomes:
            self.answer(outcome, node_id=node_id)
        return self.lives[node_id]

    def until(self, phase: NodePhase, node_id: str = "n1", *, rule: Callable[[OrderNodeAction], ActionOutcome]) -> None:
        """Answer by a rule until a phase is reached."""
        for _ in range(50):
            if self.lives[node_id].phase is phase:
                return
            if self.lives[node_id].operation is not None:
                self.answer(rule(self.orders[-1]), node_id=node_id)
            else:
                self.later(1.0, node_id)
        raise AssertionError(f"{node_id} is {self.lives[node_id].phase}, not {phase}")
