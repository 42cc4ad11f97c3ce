"""Messages about nodes → events of their lives: verdicts, standings, outcomes of orders, and what persons ask for."""

from __future__ import annotations

import json
from typing import Any

from fault_contracts.faults import Attribution, FaultClassified
from fault_contracts.hardware import NodeStandingChanged
from fault_contracts.node_actions import NodeActionReported
from fault_contracts.policy import PolicyMode
from recovery_planner.application.cause_board import CauseBoard
from recovery_planner.application.ports import GangStore
from recovery_planner.application.tend_nodes import TendNodes
from recovery_planner.domain.node_ladder import rung_of
from recovery_planner.domain.node_life import Blame
from recovery_planner.domain.node_person import NodeVerb, PersonAsked
from recovery_planner.domain.node_remedy import ActionEnded
from recovery_planner.domain.node_story import BlameWithdrawn, NodeBlamed
from recovery_planner.domain.node_tend import NodeLooked
from recovery_planner.domain.shared_causes import Link
from service_kit.errors import PermanentError, ServiceError
from service_kit.ports import Delivery

NAME_MAX = 256
WITHIN_S_MAX = 604_800.0
"""A week: longer is a mistaken unit."""


class AskedWrongly(Exception):
    """The question cannot be answered; the text says why."""


class HearOfNodes:
    """Handler of what concerns the life of a node; idempotent by the ids of the evidence."""

    def __init__(self, *, tend: TendNodes, gangs: GangStore, board: CauseBoard | None = None) -> None:
        self._tend = tend
        self._gangs = gangs
        self._board = board

    async def hear(self, delivery: Delivery) -> None:
        """One message.

        Raises:
            TransientError: it could not be recorded; safe to repeat.
        """
        payload, cause_id = delivery.envelope.data, delivery.envelope.id
        match payload:
            case FaultClassified():
                await self._verdict(payload, cause_id)
            case NodeStandingChanged():
                self._tend.ward.know([payload.node_id])
                if self._tend.concerns(payload.standing):
                    await self._tend.handle(payload.node_id, NodeLooked(), cause_id)
            case NodeActionReported():
                if self._tend.ward.get(payload.node_id) is not None:
                    await self._tend.handle(payload.node_id, ActionEnded(report=payload), cause_id)
            case _:
                pass

    async def _verdict(self, fault: FaultClassified, cause_id: str) -> None:
        if fault.provisional:
            return  # a final one follows
        blame = blame_of(fault)
        if fault.supersedes:
            await self._withdraw(fault, blame, cause_id)
        link = None if blame is None or self._board is None else self._board.shared_by(fault)
        if link is not None:
            await self._absolve(link, cause_id)
        elif blame is not None:
            observed = await self._only_observes(fault.job_id)
            node_id = fault.culprit.node_id or ""
            await self._tend.handle(node_id, NodeBlamed(blame=blame, observed=observed), cause_id)

    async def _withdraw(self, fault: FaultClassified, blame: Blame | None, cause_id: str) -> None:
        for life in self._tend.ward.all():
            old = life.blame
            if old is None or old.evidence_id != fault.supersedes:
                continue
            if blame is None or fault.culprit.node_id != life.node_id:
                sentence = f"a later verdict blames {fault.attribution}, {fault.cause}, and not this node"
                event = BlameWithdrawn(evidence_id=old.evidence_id, sentence=sentence)
                await self._tend.handle(life.node_id, event, cause_id)

    async def _absolve(self, link: Link, cause_id: str) -> None:
        """The cause is shared: who was blamed for it before that was known is not repaired for it either."""
        for life in self._tend.ward.all():
            old = life.blame
            if old is not None and old.evidence_id in link.evidence_ids:
                event = BlameWithdrawn(evidence_id=old.evidence_id, sentence=link.sentence)
                await self._tend.handle(life.node_id, event, cause_id)

    async def _only_observes(self, job_id: str) -> bool:
        try:
            stored = await self._gangs.load(job_id)
        except PermanentError:
            return True  # what the job wants cannot be told: nothing is done because of it
        policy = None if stored is None else stored.gang.spec.policy
        return policy is not None and policy.mode is PolicyMode.OBSERVE

    # --------------------------------------------------------------------------------------------------- persons

    async def answer(self, body: bytes) -> bytes:
        """The reply to `ask(what="tend")` as JSON; see fault_contracts.asks."""
        try:
            asked: Any = json.loads(body or b"{}")
            if not isinstance(asked, dict):
                raise AskedWrongly("the question is no JSON object")
            return await self._act({str(name): str(value) for name, value in asked.items()})
        except AskedWrongly as error:
            return _said(ok=False, error=str(error))
        except ValueError as error:
            return _said(ok=False, error=f"the question is not understood: {error}")
        except ServiceError as error:
            return _said(ok=False, error=f"it could not be written; try again: {error}")

    async def _act(self, asked: dict[str, str]) -> bytes:
        node_id, by, reason = (asked.get(name, "").strip() for name in ("node_id", "by", "reason"))
        try:
            verb = NodeVerb(asked.get("verb", ""))
        except ValueError:
            raise AskedWrongly(f"verb {asked.get('verb')!r}; {', '.join(NodeVerb)} is understood") from None
        if not 0 < len(node_id) <= NAME_MAX or not 0 < len(by) <= NAME_MAX:
            raise AskedWrongly("node_id and by are needed, of at most 256 characters")
        if not reason:
            raise AskedWrongly("reason is missing: it is shown to whoever is refused because of it")
        if verb is not NodeVerb.RELEASE and not self._tend.is_known(node_id):
            raise AskedWrongly(f"no node {node_id!r} is known here; `phalanx nodes` lists them")
        within_s = _seconds(asked.get("within_s", ""))
        event = PersonAsked(verb=verb, by=by, sentence=reason[:1_500], within_s=within_s)
        reasons = await self._tend.handle(node_id, event)
        life = self._tend.ward.get(node_id)
        last = next((each for each in reasons if each.rule_id.startswith("person.")), None)
        refused = last is not None and last.rule_id == "person.refused"
        sentence = last.sentence if last is not None else ""
        phase = "ok" if life is None else str(life.phase)
        return _said(ok=not refused, error=sentence if refused else "", phase=phase, sentence=sentence)


def blame_of(fault: FaultClassified) -> Blame | None:
    """What a verdict says against a node; None: nothing. A user's fault never costs a node."""
    node_id = fault.culprit.node_id
    if not node_id or rung_of(fault.action) is None or fault.attribution is Attribution.USER:
        return None
    return Blame(
        evidence_id=fault.fault_id,
        action=fault.action,
        cause=fault.cause,
        sentence=fault.reasons[0].sentence[:2_000],
        gpu_uuid=fault.culprit.gpu_uuid or "",
        job_id=fault.job_id,
        fault_id=fault.fault_id,
        also=tuple(fault.condition_ids[:32]),
    )


def _seconds(text: str) -> float | None:
    if not text:
        return None
    seconds = float(text)
    if not 0 <= seconds <= WITHIN_S_MAX:
        raise AskedWrongly(f"within_s is {text}; 0 to {WITHIN_S_MAX:g} is understood")
    return seconds


def _said(*, ok: bool, error: str = "", phase: str = "", sentence: str = "") -> bytes:
    return json.dumps({"ok": ok, "error": error, "phase": phase, "sentence": sentence}).encode()
