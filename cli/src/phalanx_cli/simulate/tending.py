"""The lives of all nodes as the planner itself keeps them: `tend` decides, and its orders are carried out here.

Ladder, gate, probation, strikes and breaker are the planner's code under the cluster's own policy. What an order
takes and whether it heals is the model's. There is no pool: a node that is listed is repaired and released by a person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fault_contracts.cluster_policy import ClusterPolicy
from fault_contracts.faults import Action
from fault_contracts.hardware import NodeStanding
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported, OrderNodeAction
from fault_contracts.payload import Health, Reason
from fault_contracts.remediation import NodePhase
from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.faults import Fault, Need, Symptom
from phalanx_cli.simulate.listing import EPOCH, at
from phalanx_cli.simulate.node_life import Absence, gate_finds, mended
from recovery_planner.domain.breaker import Breaker, Census
from recovery_planner.domain.node_care import Around
from recovery_planner.domain.node_life import Blame, NodeLife
from recovery_planner.domain.node_person import NodeVerb, PersonAsked
from recovery_planner.domain.node_remedy import ActionEnded
from recovery_planner.domain.node_story import NodeBlamed
from recovery_planner.domain.node_tend import NodeEvent, NodeLooked, new_life, tend

LOOK_EVERY_S = 1_800.0
"""A node that the breaker keeps waiting asks again; the planner does each 30 s, which would only take longer here."""
_RELEASE = PersonAsked(verb=NodeVerb.RELEASE, by="repair", sentence="it was repaired")
_DONE = Reason(rule_id="node_action.done", sentence="it was done")
_FOUND = Reason(rule_id="node_action.failed", sentence="the validation found something")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Something that will happen to a node."""

    at_s: float
    event: NodeEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows from one event: what will happen, and the node's return, where that is now."""

    turns: tuple[Turn, ...] = ()
    back: Absence | None = None


@dataclass(slots=True)
class _Story:
    """What is truly the matter with a node that is out.

    Attributes:
        fault: what was blamed or found last.
        left: what it has now, and `gap_s` until that shows; None: it is well.
    """

    began_s: float
    fault: Fault
    left: Fault | None
    gap_s: float
    rounds: int = 0
    found: int = 0
    replaced: bool = False
    in_repair: bool = False
    look_s: float = 0.0


class Tending:
    """One record a node, and the breaker's, as the planner has them."""

    def __init__(self, policy: ClusterPolicy, costs: Costs, known: int) -> None:
        """Begin with nodes that nothing was ever said against.

        Raises:
            ValueError: nothing would be done to any node.
        """
        if policy.ladder is None:
            raise ValueError("the cluster's policy has no ladder: nothing would be done to a broken node")
        self._policy, self._costs, self._known = policy, costs, known
        self._lives: dict[str, NodeLife] = {}
        self._stories: dict[str, _Story] = {}
        self._out: set[str] = set()
        self._breaker = Breaker()
        self._blames = 0
        self.refused = 0
        """How often the breaker said no."""

    def blamed(self, node: str, device: str, fault: Fault, now_s: float, *, listed: bool) -> Step:
        """A verdict, or the device itself, asks for something to be done about the node."""
        self._blames += 1
        action = asked(fault, listed=listed)
        blame = Blame(
            evidence_id=f"fault-{self._blames}",
            action=action,
            cause=fault.name,
            sentence=fault.name,
            gpu_uuid=device if fault.kind.of_node else "",
            fault_id=f"fault-{self._blames}",
        )
        left, gap_s = mended(fault, Need.RESTART)
        self._tend(node, NodeLooked(), now_s)  # a probation that is over ends first
        self._stories[node] = _Story(began_s=now_s, fault=fault, left=left, gap_s=gap_s)
        return self.turn(node, NodeBlamed(blame=blame), now_s)

    def turn(self, node: str, event: NodeEvent, now_s: float) -> Step:
        """Something happened to a node that is out."""
        story = self._stories.get(node)
        if story is None:
            return Step()
        if event is _RELEASE:
            story.left, story.gap_s = mended(story.fault, Need.REPLACE_NODE)
            story.replaced, story.in_repair = True, False
        if isinstance(event, ActionEnded) and event.report.outcome is ActionOutcome.FAILED and story.left is not None:
            story.fault, story.found = story.left, story.found + 1
        self._tend(node, event, now_s)
        return self._after(node, story, now_s)

    def _tend(self, node: str, event: NodeEvent, now_s: float) -> None:
        life = self._lives.get(node) or new_life(node, at(now_s))
        census = Census(known=self._known, out=len(self._out))
        # A pool is not asked, and no ranks are there: the gang gave the node up before.
        around = Around(census=census, standing=self._standing(node, life), told=True)
        done = tend(life, event, now=at(now_s), policy=self._policy, around=around, breaker=self._breaker)
        self._lives[node], self._breaker = done.life, done.breaker
        self.refused += any(each.rule_id in ("breaker.share", "breaker.count") for each in done.reasons)
        (self._out.add if done.life.counts_as_out else self._out.discard)(node)

    def _standing(self, node: str, life: NodeLife) -> NodeStanding | None:
        """A device that speaks for itself keeps speaking until something is done."""
        story = self._stories.get(node)
        waits = life.phase in (NodePhase.OK, NodePhase.PROBATION, NodePhase.SUSPECT)
        if story is None or not waits or story.fault.kind.symptom is not Symptom.DEVICE:
            return None
        return NodeStanding(node_id=node, fit=Health.BAD)

    def _after(self, node: str, story: _Story, now_s: float) -> Step:
        """Carry orders out; say when the node has to be looked at again; or hand it back."""
        life = self._lives[node]
        turns = [
            self._carried_out(story, effect.payload, now_s)
            for effect in life.pending
            if isinstance(effect.payload, OrderNodeAction)
        ]
        self._lives[node] = replace(life, pending=())
        if life.phase in (NodePhase.OK, NodePhase.PROBATION):
            del self._stories[node]
            return Step(back=_handed_back(story, life, now_s))
        if life.phase is NodePhase.LISTED and not story.in_repair:
            story.in_repair = True
            turns.append(Turn(at_s=now_s + story.fault.repair_s, event=_RELEASE))
        look_s = 0.0 if life.deadline_at is None else (life.deadline_at - EPOCH).total_seconds()
        if life.phase is NodePhase.SUSPECT:
            look_s = max(look_s, now_s + LOOK_EVERY_S)
        is_answered = any(turn.at_s < look_s for turn in turns)
        if look_s > now_s and look_s != story.look_s and not is_answered:
            story.look_s = look_s
            turns.append(Turn(at_s=look_s, event=NodeLooked()))
        return Step(turns=tuple(turns))

    def _carried_out(self, story: _Story, order: OrderNodeAction, now_s: float) -> Turn:
        outcome = ActionOutcome.DONE
        if order.action is NodeAction.VALIDATE:
            story.rounds += 1
            takes_s = self._costs.gate_round_s
            if story.left is not None and gate_finds(story.left, story.rounds, 1, self._costs):
                outcome = ActionOutcome.FAILED
        else:
            is_reset = order.action is NodeAction.RESET_GPU
            takes_s = self._costs.reset_s if is_reset else self._costs.reboot_s
            story.left, story.gap_s = mended(story.fault, Need.RESET_GPU if is_reset else Need.REBOOT_NODE)
        report = NodeActionReported(
            node_id=order.node_id,
            instance_id=order.node_id,
            operation_id=order.operation_id,
            action=order.action,
            outcome=outcome,
            reason=_DONE if outcome is ActionOutcome.DONE else _FOUND,
            finished_at=at(now_s + takes_s),
        )
        return Turn(at_s=now_s + takes_s, event=ActionEnded(report=report))


def asked(fault: Fault, *, listed: bool) -> Action:
    """What verdict, device or ledger ask for."""
    if listed or (fault.kind.of_node and not fault.kind.light):
        return Action.REPLACE_NODE
    return Action.RESET_GPU if fault.kind.of_node else Action.REBOOT_NODE


def _handed_back(story: _Story, life: NodeLife, now_s: float) -> Absence:
    until = life.probation_until
    return Absence(
        away_s=now_s - story.began_s,
        next_fault=story.left,
        next_gap_s=story.gap_s,
        found=story.found,
        replaced=story.replaced,
        doubt_s=0.0 if until is None else max(0.0, (until - at(now_s)).total_seconds()),
    )
