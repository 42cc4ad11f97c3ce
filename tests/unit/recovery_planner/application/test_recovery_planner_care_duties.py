"""The care of nodes goes on when the store did not answer at the beginning of a lead."""

import asyncio
from typing import Any, cast

from recovery_planner.application.care_duties import CareDuties
from service_kit.errors import BusUnavailable
from service_kit.testing.virtual_clock import LoopClock, run_virtual


class Tend:
    """Fails to look at all nodes so many times."""

    def __init__(self, failures: int) -> None:
        self.failures, self.tries, self.looks = failures, 0, 0

    async def look_at_all(self) -> None:
        self.tries += 1
        if self.tries <= self.failures:
            raise BusUnavailable("the store did not answer")

    async def look(self) -> None:
        self.looks += 1


class Replace:
    """Has nothing to do."""

    async def once(self) -> None:
        """See ReplaceNodes."""


def test_all_nodes_are_looked_at_once_the_store_answers() -> None:
    async def main() -> Tend:
        tend, clock = Tend(failures=2), LoopClock()
        parts: dict[str, Any] = {"tend": tend, "hear": None, "replace": Replace(), "bus": None}
        task = asyncio.create_task(CareDuties(**cast(Any, parts), clock=clock).run())
        await clock.sleep(9.5)
        assert not task.done()
        task.cancel()
        return tend

    tend = run_virtual(main())
    assert (tend.tries, tend.looks) == (3, 10)
