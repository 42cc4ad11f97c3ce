"""Publish what a gang record says is decided: commands first, under the leader's epoch, then the journal."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from fault_contracts.commands import Command, EndJob
from fault_contracts.envelope import Envelope, seal
from fault_contracts.payload import Payload
from recovery_planner.application.journal_figures import CountOnce, JournalFigures, NoJournalFigures
from recovery_planner.application.ports import Failpoints, LeaderView
from recovery_planner.domain.gang import Effect, Gang
from recovery_planner.domain.policy import Policy
from service_kit.errors import PermanentError, StaleLeader, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

VALIDITY_MIN_S = 5.0
"""A command published late (a planner was restarted) gets its whole validity again when less than this is left: whether
it is still wanted is the fence's business, not the clock's."""

log = get_logger(__name__)


class EffectPublisher:
    """Turns pending effects into messages whose ids derive from the record, so that publishing twice stores once."""

    def __init__(
        self,
        *,
        bus: Bus,
        clock: Clock,
        leader: LeaderView,
        policy: Policy,
        source: str,
        failpoints: Failpoints,
        figures: JournalFigures | None = None,
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._leader = leader
        self._policy = policy
        self._source = source
        self._failpoints = failpoints
        self._count = CountOnce(figures or NoJournalFigures())

    async def publish(self, gang: Gang) -> None:
        """Publish every pending effect of the record, side by side; the bus keeps the order in which it gets them.

        Raises:
            StaleLeader: a newer leader holds the epoch; what is pending is its business now.
            TransientError: something could not be published; it stays pending. This use case's caller owns the retry.
        """
        commands = [effect for effect in gang.pending if isinstance(effect.payload, Command)]
        journal = [effect for effect in gang.pending if not isinstance(effect.payload, Command)]
        outcomes = await asyncio.gather(
            *(self._publish_one(gang, effect) for effect in (*commands, *journal)), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            if isinstance(failure, StaleLeader):
                self._leader.lose()
                raise failure
        for failure in failures:
            raise failure

    async def _publish_one(self, gang: Gang, effect: Effect) -> None:
        payload = effect.payload
        is_command = isinstance(payload, Command)
        envelope = self._envelope(gang, effect, self._current(payload) if isinstance(payload, Command) else payload)
        try:
            await self._bus.publish(envelope, epoch=self._leader.epoch if is_command else None)
        except (StaleLeader, TransientError):
            raise
        except PermanentError as error:
            # Refused for good (too large, no permission): a repeat cannot help and must not hold up the rest.
            log.error(
                "effect_refused", job_id=gang.job_id, type=envelope.type, message_id=envelope.id, error=str(error)
            )
        else:
            self._count.published(gang, effect)
        self._failpoints.reach("after_publish_each")

    def _current(self, command: Command) -> Command:
        """The command as of now: our epoch, and a validity that is not over before it arrives."""
        now = self._clock.now()
        expires_at = command.expires_at
        if expires_at < now + timedelta(seconds=VALIDITY_MIN_S):
            ttl_s = self._policy.end_ttl_s if isinstance(command, EndJob) else self._policy.command_ttl_s
            expires_at = now + timedelta(seconds=ttl_s)
        fence = command.fence.model_copy(update={"epoch": self._leader.epoch})
        return command.model_copy(update={"fence": fence, "expires_at": expires_at})

    def _envelope(self, gang: Gang, effect: Effect, payload: Payload) -> Envelope[Payload]:
        if isinstance(payload, Command):
            incident_id = payload.fence.incident_id
        else:
            incident_id = str(getattr(payload, "incident_id", ""))
        return seal(
            payload,
            source=self._source,
            cause_id=f"{gang.job_id}/{effect.run or gang.born_at.isoformat()}",
            time=self._clock.now(),
            ordinal=effect.seq,
            correlation_id=incident_id,
            causation_id=effect.cause_id,
        )
