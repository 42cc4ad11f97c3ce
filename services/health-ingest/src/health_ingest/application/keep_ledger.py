"""The one path on which a ledger entry changes: load, decide, persist with what is owed, publish, clear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from fault_contracts.envelope import Envelope, seal
from fault_contracts.hardware import HardwareChanged, Hold, LedgerEntry
from fault_contracts.inventory import DeviceIdentity
from fault_contracts.payload import Reason
from health_ingest.application.advance_condition import SOURCE
from health_ingest.application.hardware_ports import LedgerRecord, LedgerRecords
from health_ingest.domain.ledger import LedgerPolicy, Step, identified, pass_time
from service_kit.deadlines import Deadlines
from service_kit.errors import CompareAndSetLost, PermanentError, TransientError
from service_kit.failpoints import Failpoints
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

ROUNDS_MAX = 16
"""Lost compare-and-sets in a row on one entry; more means a writer that never stops."""
RETRY_S = 1.0
"""This use case owns the retry of a date that the bus did not answer. Dates of days can wait a second."""
_log = get_logger(__name__)
Decide = Callable[[LedgerEntry], Step]


class KeepLedger:
    """Changes entries, brings out what follows, and keeps their dates."""

    def __init__(
        self,
        *,
        records: LedgerRecords,
        bus: Bus,
        clock: Clock,
        policy: LedgerPolicy,
        failpoints: Failpoints,
        rescan_s: float,
    ) -> None:
        self.records = records
        self.policy = policy
        self._bus = bus
        self._clock = clock
        self._failpoints = failpoints
        self._rescan_s = rescan_s
        self._deadlines = Deadlines(clock)

    async def entry_of(self, device: DeviceIdentity) -> LedgerEntry | None:
        """The entry of a device under this or another uuid of its board; None: nothing is held against it."""
        stored = await self._find(device)
        return None if stored is None else stored.entry

    async def change(self, device: DeviceIdentity, decide: Decide, *, create: bool, causation_id: str = "") -> Step:
        """Decide on the newest entry of a device.

        Args:
            device: as far as it is known.
            decide: called again when somebody else wrote first.
            create: begin an entry when there is none; else nothing happens without one.
            causation_id: of the message that brought it.

        Raises:
            TransientError: bus or store did not answer; safe to repeat.
        """
        for _ in range(ROUNDS_MAX):
            record = await self._find(device)
            if record is None:
                fresh = LedgerEntry(device_id=device.device_id)
                if not create:
                    return Step(entry=fresh, effects=(), reason=_NOT_LISTED)
                record = LedgerRecord(entry=fresh)
            try:
                return await self._apply(record, lambda entry: decide(identified(entry, device)), causation_id)
            except CompareAndSetLost:
                continue
        raise TransientError(f"ledger entry of {device.device_id} changed {ROUNDS_MAX} times while it was decided on")

    # --------------------------------------------------------------------------------------------------- dates

    async def run(self) -> None:
        """Act on each date as it passes, until cancelled."""
        await self._deadlines.run(self._expire)

    async def rescan_forever(self) -> None:
        """Look at every entry at start and from time to time: another replica may have died with its dates."""
        while True:
            try:
                for device_id in await self.records.device_ids():
                    await self._expire(device_id)
            except TransientError as error:
                _log.warning("ledger_rescan_failed", error=str(error))
                await self._clock.sleep(RETRY_S)
                continue
            await self._clock.sleep(self._rescan_s)

    async def _expire(self, device_id: str) -> None:
        try:
            record = await self.records.load(device_id)
            if record is not None:
                await self._apply(record, lambda entry: pass_time(entry, now=self._clock.now(), policy=self.policy), "")
        except (TransientError, CompareAndSetLost) as error:
            _log.warning("ledger_date_delayed", device_id=device_id, error=str(error))
            self._deadlines.set(device_id, self._clock.now() + timedelta(seconds=RETRY_S))
        except PermanentError as error:
            # One entry that cannot be read must not keep the others from their dates.
            _log.error("ledger_entry_unreadable", device_id=device_id, error=str(error))

    # ------------------------------------------------------------------------------------------------ one entry

    async def _find(self, device: DeviceIdentity) -> LedgerRecord | None:
        stored = await self.records.load(device.device_id)
        if stored is not None:
            return stored
        other = await self.records.listed_as(device.board_serial, device.pci_vendor_data)
        return None if other is None else await self.records.load(other)

    async def _apply(self, record: LedgerRecord, decide: Decide, causation_id: str) -> Step:
        owed = record.pending
        if owed:  # A predecessor was killed between persist and clear. Its messages come first.
            await self._publish(owed)
        step = decide(record.entry)
        self._failpoints.reach("ledger_after_decide")
        if step.entry == record.entry and not step.effects and not owed:
            self._remind(step.entry)
            return step
        effects = tuple(self._sealed(effect, causation_id) for effect in step.effects)
        saved = await self.records.save(replace(record, entry=step.entry, pending=effects))
        self._failpoints.reach("ledger_after_persist")
        self._remind(step.entry)
        if effects:
            await self._publish(effects)
            self._failpoints.reach("ledger_after_publish")
            _log.info(
                "hardware_changed",
                device_id=step.entry.device_id,
                node_id=step.entry.node_id,
                hold=step.entry.hold,
                score=round(step.entry.score, 2),
                rule_id=step.reason.rule_id,
                reason=step.reason.sentence,
            )
            try:
                await self.records.save(replace(saved, pending=()))
            except CompareAndSetLost:
                # Whoever wrote saw the pending messages and published them again; their ids make that harmless.
                _log.debug("clear_overtaken", device_id=step.entry.device_id)
        return step

    def _remind(self, entry: LedgerEntry) -> None:
        self._deadlines.set(entry.device_id, None if entry.hold is Hold.FREE else entry.until)

    async def _publish(self, envelopes: tuple[Envelope[Any], ...]) -> None:
        for envelope in envelopes:
            await self._bus.publish(envelope)

    def _sealed(self, changed: HardwareChanged, causation_id: str) -> Envelope[HardwareChanged]:
        return seal(
            changed,
            source=SOURCE,
            cause_id=changed.device_id,
            ordinal=f"{changed.entry.version}.{changed.change}",
            time=self._clock.now(),
            causation_id=causation_id,
        )


_NOT_LISTED = Reason(rule_id="ledger.not_listed", sentence="nothing is held against it")
