"""Publish what a node's record says is decided: orders first, under the leader's epoch, then the journal."""

from __future__ import annotations

from datetime import datetime, timedelta

from fault_contracts.envelope import seal
from fault_contracts.node_actions import OrderNodeAction
from fault_contracts.payload import Payload
from recovery_planner.application.ports import Failpoints, LeaderView
from recovery_planner.domain.gang import Effect
from recovery_planner.domain.node_care import ORDER_VALID_S
from recovery_planner.domain.node_life import NodeLife
from service_kit.errors import PermanentError, StaleLeader, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

VALIDITY_MIN_S = 10.0
"""An order that is published late gets its whole validity again when less than this is left."""

log = get_logger(__name__)


class CarePublisher:
    """Ids derive from the record, so that publishing twice stores once."""

    def __init__(self, *, bus: Bus, clock: Clock, leader: LeaderView, source: str, failpoints: Failpoints) -> None:
        self._bus = bus
        self._clock = clock
        self._leader = leader
        self._source = source
        self._failpoints = failpoints

    async def publish(self, life: NodeLife) -> None:
        """Every pending effect of the record, in its order.

        Raises:
            TransientError: something could not be published, or a newer leader holds the epoch; it stays pending.
        """
        orders = [effect for effect in life.pending if isinstance(effect.payload, OrderNodeAction)]
        for effect in (*orders, *(each for each in life.pending if each not in orders)):
            await self._publish_one(life, effect)

    async def _publish_one(self, life: NodeLife, effect: Effect) -> None:
        payload, now = effect.payload, self._clock.now()
        is_order = isinstance(payload, OrderNodeAction)
        envelope = seal(
            _current(payload, now + timedelta(seconds=VALIDITY_MIN_S), now + timedelta(seconds=ORDER_VALID_S)),
            source=self._source,
            cause_id=f"{life.node_id}/care",
            time=now,
            ordinal=effect.seq,
            correlation_id=life.blame.fault_id if life.blame is not None else "",
            causation_id=effect.cause_id,
        )
        try:
            await self._bus.publish(envelope, epoch=self._leader.epoch if is_order else None)
        except StaleLeader as error:
            self._leader.lose()
            raise TransientError(f"node {life.node_id}: another planner leads") from error
        except TransientError:
            raise
        except PermanentError as error:
            # Refused for good: a repeat cannot help and must not hold up the rest.
            log.error("effect_refused", node_id=life.node_id, type=envelope.type, error=str(error))
        self._failpoints.reach("care_after_publish_each")


def _current(payload: Payload, least: datetime, whole: datetime) -> Payload:
    if isinstance(payload, OrderNodeAction) and payload.expires_at < least:
        return payload.model_copy(update={"expires_at": whole})
    return payload
