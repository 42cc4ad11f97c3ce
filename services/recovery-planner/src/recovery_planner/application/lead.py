"""Who leads. One planner commands, the others stand by; the server, not this module, keeps two from commanding at once.

A leader answers `ask(what="planner", key="leader")`. Whoever finds that nobody does takes the next epoch, and from
then on the server refuses the commands of every older one (StaleLeader). So a wrong guess here costs a moment, never a
second start.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from fault_contracts.commands import LeaderEpoch
from fault_contracts.envelope import seal
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Subscription

ROLE = LeaderEpoch.model_fields["role"].default
ASK_EVERY_S = 1.0
LOOK_EVERY_S = 1.0
ASK_TIMEOUT_S = 0.5
SILENT_MAX = 5
"""Questions in a row that a leader may leave unanswered while the server says that it listens: it hangs."""

log = get_logger(__name__)


class Duties(Protocol):
    """What a leader does and a standby does not."""

    async def take_up(self) -> None:
        """Begin; on a failure nothing is left running."""
        ...

    async def lay_down(self) -> None:
        """End, and forget what may be out of date tomorrow."""
        ...


class Lead:
    """The election loop, and what the other use cases may know of it (LeaderView)."""

    def __init__(self, *, bus: Bus, clock: Clock, instance_id: str, source: str) -> None:
        self._bus = bus
        self._clock = clock
        self._instance_id = instance_id
        self._source = source
        self._epoch = 0
        self._lost = asyncio.Event()
        self._answering: Subscription | None = None

    @property
    def epoch(self) -> int:
        """Epoch of our commands; 0 while somebody else leads."""
        return self._epoch

    @property
    def is_leader(self) -> bool:
        """We hold an epoch and have not heard of a newer one."""
        return self._epoch > 0

    def lose(self) -> None:
        """The server refused our epoch. It stays until the duties are laid down, so that late commands are refused."""
        self._lost.set()

    async def run(self, duties: Duties, first_known: asyncio.Event) -> None:
        """Lead or stand by until cancelled. `first_known` is set as soon as it is known which."""
        try:
            while True:
                try:
                    if await self._somebody_leads():
                        first_known.set()
                        await self._clock.sleep(ASK_EVERY_S)
                        continue
                    await self._begin(duties)
                except TransientError as error:
                    log.warning("lead_not_taken", error=str(error))
                    await self._clock.sleep(ASK_EVERY_S)
                    continue
                first_known.set()
                await self._hold()
                log.warning("lead_lost", epoch=self._epoch)
                await self._end(duties)
        finally:
            first_known.set()  # whoever waits for it must not wait for a loop that ended
            await self._end(duties)

    async def _hold(self) -> None:
        """Until a newer epoch is seen: at our next command by the server, or here by looking.

        Two that began at the same moment find out without a command between them; until then each wastes the other's
        work, and neither does harm.
        """
        while not self._lost.is_set():
            sleep = asyncio.ensure_future(self._clock.sleep(LOOK_EVERY_S))
            lost = asyncio.ensure_future(self._lost.wait())
            try:
                await asyncio.wait((sleep, lost), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
                lost.cancel()
            try:
                newest = await self._bus.last_commands(key=ROLE, messages=[LeaderEpoch])
            except TransientError:
                continue  # cut off: whoever leads by then will have refused us at our first command
            if any((delivery.stream_sequence or 0) > self._epoch for delivery in newest):
                self.lose()

    async def _somebody_leads(self) -> bool:
        silent = 0
        while silent < SILENT_MAX:
            try:
                return await self._bus.ask(what="planner", key="leader", timeout_s=ASK_TIMEOUT_S) is not None
            except TransientError:
                silent += 1
        log.warning("leader_silent", questions=silent)
        return False

    async def _begin(self, duties: Duties) -> None:
        self._lost.clear()
        now = self._clock.now()
        envelope = seal(
            LeaderEpoch(instance_id=self._instance_id, taken_at=now),
            source=self._source,
            cause_id=self._instance_id,
            time=now,
            ordinal=now.isoformat(),
        )
        self._epoch = await self._bus.take_epoch(envelope)
        log.info("lead_taken", epoch=self._epoch)
        try:
            self._answering = await self._bus.answer(what="planner", key="leader", reply=self._say_who)
            await duties.take_up()
        except BaseException:
            await self._end(duties)
            raise

    async def _end(self, duties: Duties) -> None:
        if self._answering is not None:
            await self._answering.stop()
            self._answering = None
        if self._epoch:
            await duties.lay_down()
            self._epoch = 0

    async def _say_who(self, _question: bytes) -> bytes:
        return self._instance_id.encode()
