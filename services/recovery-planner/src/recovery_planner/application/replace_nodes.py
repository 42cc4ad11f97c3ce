"""What the records want of the pool and of the ledger, asked until they have it.

Level-triggered: a lost answer, and a planner that dies, cost one more question.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import timedelta

from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase, Rung
from recovery_planner.application.tend_nodes import TendNodes
from recovery_planner.application.tending_ports import NodePool
from recovery_planner.domain.known_bad import is_told, known_bad
from recovery_planner.domain.node_life import PLANNER, NodeLife, Wanted
from recovery_planner.domain.node_replacement import (
    ArrivalRefused,
    ArrivalTaken,
    LedgerTold,
    NodeArrived,
    NodeRejected,
    PoolFailed,
    PoolNamed,
    PoolRefused,
    PoolTook,
)
from service_kit.errors import PermanentError, ServiceError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

LEDGER_ASK_S = 10.0
"""A quarantine looks for the device on every known node."""

log = get_logger(__name__)


class ReplaceNodes:
    """Asks pool and ledger for every record that wants something of them."""

    def __init__(self, *, tend: TendNodes, pool: NodePool | None, bus: Bus, clock: Clock) -> None:
        self._tend = tend
        self._pool = pool
        self._bus = bus
        self._clock = clock

    async def once(self) -> None:
        """Every record; one that cannot be served now does not hold up the others."""
        for life in self._tend.ward.all():
            if life.ledger_owed:
                await self._guarded(life, self._list(life))
            if self._pool is None:
                continue
            if life.phase is NodePhase.REMEDIATING and life.rung is Rung.REPLACE_NODE and life.operation is not None:
                await self._guarded(life, self._give_back(self._pool, life))
            elif life.wanted is not None:
                await self._guarded(life, self._serve(self._pool, life, life.wanted))

    async def _guarded(self, life: NodeLife, work: Awaitable[None]) -> None:
        try:
            await work
        except ServiceError as error:
            log.warning("replacement_delayed", node_id=life.node_id, error=str(error))

    async def _give_back(self, pool: NodePool, life: NodeLife) -> None:
        if self._tend.occupied_by(life.node_id):
            return
        assert life.operation is not None, "the caller has looked"
        try:
            await pool.retire(life.node_id, request_id=life.operation.operation_id, reason=life.reason.sentence)
        except PermanentError as error:
            await self._tend.handle(life.node_id, PoolRefused(sentence=str(error)[:500]))
            return
        await self._tend.handle(life.node_id, PoolTook())

    async def _serve(self, pool: NodePool, life: NodeLife, wanted: Wanted) -> None:
        if wanted.came:
            await self._judge(pool, life, wanted)
            return
        if self._clock.now() < wanted.ask_at:
            return
        try:
            said = await pool.acquire(request_id=wanted.request_id, labels=self._tend.policy.pool.labels)
        except PermanentError as error:
            failed = PoolFailed(request_id=wanted.request_id, sentence=str(error)[:500])
            await self._tend.handle(life.node_id, failed)
            return
        if said.failed:
            failed = PoolFailed(request_id=wanted.request_id, sentence=said.failed[:500])
            await self._tend.handle(life.node_id, failed)
        elif said.node_id:
            await self._tend.handle(life.node_id, PoolNamed(request_id=wanted.request_id, node_id=said.node_id))

    async def _judge(self, pool: NodePool, life: NodeLife, wanted: Wanted) -> None:
        """By what is built in. Its own record is written first: a planner that dies here judges again."""
        node_id = wanted.came
        why = await self._against(life, wanted)
        if why is None:
            return
        if why.rule_id == "pool.fit":
            await self._tend.handle(node_id, NodeArrived(predecessor=life.node_id))
            await self._tend.handle(life.node_id, ArrivalTaken(node_id=node_id))
            return
        await self._tend.handle(node_id, NodeRejected(reason=why))
        try:
            await pool.retire(node_id, request_id=f"{wanted.request_id}-refused", reason=why.sentence)
        except PermanentError as error:
            log.warning("arrival_not_given_back", node_id=node_id, error=str(error))  # it is out of use all the same
        await self._tend.handle(life.node_id, ArrivalRefused(node_id=node_id, reason=why))

    async def _against(self, life: NodeLife, wanted: Wanted) -> Reason | None:
        """pool.fit: nothing; another rule: that; None: it has not told yet."""
        node_id = wanted.came
        own = self._tend.ward.get(node_id)
        if own is not None and own.is_out and own.predecessor != life.node_id:
            sentence = f"{node_id} was given up under this very name: {own.reason.sentence}"
            return Reason(rule_id="pool.same_name", sentence=sentence[:2_000])
        standing = await self._tend.standing_of(node_id)
        bad = known_bad(node_id, standing, self._tend.ward.bad)
        if bad is not None:
            return bad
        if is_told(standing):
            return Reason(rule_id="pool.fit", sentence="nothing is known against what is built in")
        limit = wanted.since + timedelta(seconds=self._tend.policy.pool.wait_s)
        if self._clock.now() < limit:
            return None
        return Reason(rule_id="pool.silent", sentence=f"{node_id} has not told what is built in")

    async def _list(self, life: NodeLife) -> None:
        """Have the blamed devices put into quarantine, so that they are refused wherever they turn up.

        Raises:
            TransientError: nobody answers.
        """
        for device_id in life.ledger_owed:
            asked = {
                "verb": "quarantine",
                "device_id": device_id,
                "by": PLANNER,
                "reason": f"{life.node_id} was given up: {life.reason.sentence}"[:2_000],
            }
            body = json.dumps(asked).encode()
            said = await self._bus.ask(what="hardware_change", key="ledger", body=body, timeout_s=LEDGER_ASK_S)
            if said is None:
                raise TransientError("nobody keeps a ledger")
            sentence = _said(device_id, said)
            await self._tend.handle(life.node_id, LedgerTold(device_id=device_id, sentence=sentence))


def _said(device_id: str, body: bytes) -> str:
    """What the ledger answered, for the journal. A refusal is final: asking again would not change it."""
    try:
        answer = json.loads(body)
        ok, error = bool(answer["ok"]), str(answer["error"])[:500]
    except (ValueError, KeyError, TypeError) as problem:
        return f"the ledger's answer about {device_id} is not understood: {type(problem).__name__}"
    return f"{device_id} is in quarantine" if ok else f"the ledger does not list {device_id}: {error}"
