"""What time alone does: windows that pass, records to forget, messages that a killed predecessor still owes."""

from __future__ import annotations

from datetime import timedelta

from health_ingest.application.advance_condition import AdvanceCondition
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.nodes_heard import NodesHeard
from health_ingest.application.ports import ConditionRecords
from health_ingest.domain.condition import Condition, Step
from health_ingest.domain.pass_time import pass_time
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.reset import reset
from service_kit.deadlines import Deadlines
from service_kit.errors import PermanentError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

RETRY_S = 1.0
"""This use case owns the retry of a sweep that the bus did not answer. A window of minutes can wait a second."""

_log = get_logger(__name__)


class SweepConditions:
    """Keeps the alarms of all conditions and acts when one is due."""

    def __init__(
        self,
        *,
        advance: AdvanceCondition,
        records: ConditionRecords,
        deadlines: Deadlines,
        clock: Clock,
        policy: ConditionPolicy,
        rescan_s: float,
        index: ConditionIndex | None = None,
        heard: NodesHeard | None = None,
    ) -> None:
        self._index = index or ConditionIndex()
        self._heard = heard or NodesHeard()
        self._advance = advance
        self._records = records
        self._deadlines = deadlines
        self._clock = clock
        self._policy = policy
        self._rescan_s = rescan_s

    async def run(self) -> None:
        """Act on each deadline as it passes, until cancelled."""
        await self._deadlines.run(self.sweep)

    async def rescan_forever(self) -> None:
        """Look at every record, at start and from time to time: another replica may have died with its alarms."""
        while True:
            try:
                await self.rescan()
            except TransientError as error:
                _log.warning("rescan_failed", error=str(error))
                await self._clock.sleep(RETRY_S)
                continue
            await self._clock.sleep(self._rescan_s)

    async def rescan(self) -> None:
        """Set the alarm of each record and publish what is still owed."""
        for key in await self._records.keys():
            try:
                await self._advance.settle(key, self._decide)
            except PermanentError as error:
                # One record that cannot be read must not keep the others from being looked after.
                _log.error("record_unreadable", key=key, error=str(error))
        self._index.complete = True

    async def sweep(self, key: str) -> None:
        """Let time act on one record."""
        try:
            await self._advance.settle(key, self._decide)
        except TransientError as error:
            _log.warning("sweep_failed", key=key, error=str(error))
            self._deadlines.set(key, self._clock.now() + timedelta(seconds=RETRY_S))
        except PermanentError as error:
            _log.error("sweep_refused", key=key, error=str(error))

    def _decide(self, condition: Condition) -> Step:
        booted = self._heard.boot(condition.entity.node_id)
        if booted is not None:
            # Another replica may have raised it after this one had ended what it knew of.
            ended = reset(condition, booted, now=self._clock.now(), policy=self._policy)
            if ended.effects:
                return ended
        heard_at = self._heard.at(condition.entity.node_id)
        return pass_time(condition, now=self._clock.now(), policy=self._policy, heard_at=heard_at)
