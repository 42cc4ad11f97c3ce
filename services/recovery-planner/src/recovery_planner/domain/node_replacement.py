"""A node in place of another: given back, asked for, named, judged by what is built in, taken or refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase, Rung
from recovery_planner.domain.known_bad import to_list
from recovery_planner.domain.node_care import Care
from recovery_planner.domain.node_life import Wanted
from recovery_planner.domain.node_machine import NodeTrigger
from recovery_planner.domain.node_remedy import give_up

RETURNED_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTook:
    """The pool took the node back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRefused:
    """The pool does not take the node back."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNamed:
    """The pool delivers a node for a request."""

    request_id: str
    node_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFailed:
    """A request will not be answered."""

    request_id: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalTaken:
    """The node that came is good enough for the gate."""

    node_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRefused:
    """The node that came carries what must not come back, or says nothing of itself."""

    node_id: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArrived:
    """This node was delivered in place of another, and goes through the gate."""

    predecessor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRejected:
    """This node was delivered, and is not wanted."""

    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTold:
    """The ledger has listed a device, or cannot."""

    device_id: str
    sentence: str


def pool_took(care: Care) -> None:
    """It is gone; another one is wanted."""
    life = care.life
    if life.phase is not NodePhase.REMEDIATING or life.rung is not Rung.REPLACE_NODE:
        care.explain("report.stale", f"{life.node_id} is {life.phase}; nothing was to be given back")
        return
    gpu = "" if life.blame is None else life.blame.gpu_uuid
    wanted = Wanted(request_id=_request(life.node_id, life.story, 1), requests=1, since=care.now, ask_at=care.now)
    device = f"; {gpu} is listed" if gpu else "; what was in it is listed"
    care.move(
        NodeTrigger.RETIRED,
        care.explain("pool.retired", f"{life.node_id} was given back: {life.reason.sentence}{device}"),
        deadline_s=care.policy.pool.wait_s,
        operation=None,
        wanted=wanted,
        rungs_done=(*life.rungs_done, Rung.REPLACE_NODE),
        listed=to_list(care.around.standing, gpu),
        ledger_owed=(gpu,) if gpu else (),
    )


def pool_refused(care: Care, event: PoolRefused) -> None:
    """It stays, out of use."""
    if care.life.phase is NodePhase.REMEDIATING and care.life.rung is Rung.REPLACE_NODE:
        give_up(care, care.explain("pool.refused", f"the pool does not take it back: {event.sentence}"))


def pool_named(care: Care, event: PoolNamed) -> None:
    """Its inventory decides."""
    wanted = care.life.wanted
    if wanted is None or wanted.request_id != event.request_id or wanted.came:
        care.explain("report.stale", f"{event.node_id} for {event.request_id}: nobody waits for it")
        return
    care.change(wanted=replace(wanted, came=event.node_id))
    sentence = f"the pool delivers {event.node_id} in place of {care.life.node_id}; it must say what is built in"
    care.tell(care.life.phase, care.explain("pool.named", sentence))


def pool_failed(care: Care, event: PoolFailed) -> None:
    """Ask again, within the limit."""
    wanted = care.life.wanted
    if wanted is not None and wanted.request_id == event.request_id:
        _ask_again(care, wanted, care.explain("pool.failed", f"request {wanted.requests} failed: {event.sentence}"))


def arrival_taken(care: Care, event: ArrivalTaken) -> None:
    """Another stands in its place; this story is over."""
    wanted = care.life.wanted
    if wanted is None or wanted.came != event.node_id:
        return
    care.end_trial(well=True)
    care.change(wanted=None, successor=event.node_id, deadline_at=None)
    care.tell(
        care.life.phase,
        care.explain("pool.delivered", f"{event.node_id} came in place of {care.life.node_id}; it is validated first"),
    )


def arrival_refused(care: Care, event: ArrivalRefused) -> None:
    """Hand it back, and ask again."""
    wanted = care.life.wanted
    if wanted is None or wanted.came != event.node_id:
        return
    care.change(returned=(*care.life.returned, event.node_id)[-RETURNED_KEPT:])
    reason = care.explain(event.reason.rule_id, f"{event.node_id} is refused: {event.reason.sentence}")
    _ask_again(care, wanted, reason)


def replaced(care: Care) -> None:
    """A pool that never delivers is not waited for for ever."""
    if care.life.wanted is not None and care.is_due:
        wait_s = care.policy.pool.wait_s
        _stop_asking(care, care.explain("pool.no_node", f"the pool delivered no fit node within {wait_s:g} s"))


def node_arrived(care: Care, event: NodeArrived) -> None:
    """Through the gate first. What was tried with others does not count against it."""
    if care.life.phase is not NodePhase.OK:
        care.explain("report.repeated", f"{care.life.node_id} is {care.life.phase} already")
        return
    sentence = f"{care.life.node_id} was delivered in place of {event.predecessor}; it is validated before it works"
    reason = care.explain("pool.arrived", sentence)
    care.move(NodeTrigger.ARRIVED, reason, predecessor=event.predecessor, rung=None, rungs_done=(), rounds=0)


def node_rejected(care: Care, event: NodeRejected) -> None:
    """It must not work here under this name either."""
    if care.life.phase in (NodePhase.LISTED, NodePhase.REPLACED):
        return
    reason = care.explain(event.reason.rule_id, event.reason.sentence)
    care.move(NodeTrigger.RECOGNISED, reason, operation=None)


def ledger_told(care: Care, event: LedgerTold) -> None:
    """Nothing is owed any more."""
    if event.device_id in care.life.ledger_owed:
        care.change(ledger_owed=tuple(each for each in care.life.ledger_owed if each != event.device_id))
        care.tell(care.life.phase, care.explain("ledger.told", event.sentence))


def _ask_again(care: Care, wanted: Wanted, reason: Reason) -> None:
    if wanted.requests >= care.policy.pool.requests_max:
        sentence = f"{reason.sentence}; {wanted.requests} requests are the limit"
        _stop_asking(care, care.explain("pool.no_node", sentence))
        return
    number = wanted.requests + 1
    asked = Wanted(
        request_id=_request(care.life.node_id, care.life.story, number),
        requests=number,
        since=wanted.since,
        ask_at=care.in_s(care.ladder.retry_s),
    )
    care.change(wanted=asked)
    care.tell(care.life.phase, reason, action="acquire")


def _stop_asking(care: Care, reason: Reason) -> None:
    care.end_trial(well=False)
    care.change(wanted=None, deadline_at=None, on_trial=False, reason=reason)
    care.tell(care.life.phase, reason)


def _request(node_id: str, story: int, number: int) -> str:
    return f"{node_id}-{story}-{number}"
