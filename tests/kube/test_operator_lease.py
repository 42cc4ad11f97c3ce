"""Of two operators one works; the other takes over when it is gone."""

from __future__ import annotations

import asyncio

from kube_cluster import Cluster
from kube_memory import MemoryKube

from recovery_planner.application.hold_lease import DURATION_S, Lease
from service_kit.cancellation import cancel_all
from service_kit.testing.virtual_clock import LoopClock, run_virtual


def test_one_works_and_the_other_takes_over_when_it_is_gone() -> None:
    async def main() -> None:
        clock = LoopClock()
        cluster = Cluster(now=clock.now)
        working: set[str] = set()

        async def work(name: str) -> None:
            working.add(name)
            try:
                await asyncio.Event().wait()
            finally:
                working.discard(name)

        def stand(name: str, api: MemoryKube) -> asyncio.Task[None]:
            lease = Lease(api=api, clock=clock, namespace="default", name="phalanx-operator", identity=name)
            return asyncio.create_task(lease.hold(lambda: work(name)))

        first_api, second_api = MemoryKube(cluster), MemoryKube(cluster)
        first = stand("a", first_api)
        await asyncio.sleep(1)
        second = stand("b", second_api)
        for _ in range(120):
            await asyncio.sleep(1)
            assert working == {"a"}
        # Cut off, it stops by itself before the other begins.
        first_api.down = True
        seen = []
        for _ in range(60):
            await asyncio.sleep(0.5)
            assert len(working) <= 1, "two at once"
            seen.append(frozenset(working))
        assert working == {"b"}
        assert frozenset() in seen
        first_api.down = False
        await asyncio.sleep(2 * DURATION_S)
        assert working == {"b"}
        await cancel_all([first, second])

    run_virtual(main())
