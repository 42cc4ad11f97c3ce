"""The care of nodes as one part of a leader's work: begun and ended with the lead."""

from __future__ import annotations

from dataclasses import dataclass

from recovery_planner.application.hear_of_nodes import HearOfNodes
from recovery_planner.application.replace_nodes import ReplaceNodes
from recovery_planner.application.tend_nodes import LOOK_EVERY_S, TendNodes
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Subscription

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CareDuties:
    """What RunDuties starts, feeds and stops."""

    tend: TendNodes
    hear: HearOfNodes
    replace: ReplaceNodes
    bus: Bus
    clock: Clock

    async def answer_persons(self) -> Subscription:
        """Begin to answer; the leader alone does."""
        return await self.bus.answer(what="tend", key="leader", reply=self.hear.answer)

    async def run(self) -> None:
        """Until cancelled. A store that does not answer for a moment ends nobody's care."""
        looked = False
        while True:
            if not looked:
                looked = await self._have_looked_at_all()
            await self.tend.look()
            await self.replace.once()
            await self.clock.sleep(LOOK_EVERY_S)

    async def _have_looked_at_all(self) -> bool:
        try:
            await self.tend.look_at_all()
        except TransientError as error:
            log.warning("nodes_not_looked_at", error=str(error))
            return False
        return True
