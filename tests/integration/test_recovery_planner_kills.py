"""kill -9 of the planner at every boundary between two of its steps; another one takes over; the job recovers once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from planner_cast import PlannerProcess, ScriptedAgent, agents, verdict

from fault_contracts.agent import JobSpec
from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.registry import Bucket
from phalanx_cli.stack.nats_server import NatsServer
from recovery_planner.adapters.kv_gangs import KvGangs
from recovery_planner.domain.gang import Gang, Phase
from service_kit.jetstream.key_value import JetStreamKeyValue

pytestmark = pytest.mark.integration
SPEC = JobSpec(nnodes=2, nproc_per_node=2)
LIMIT_S = 30.0

# One incident, counted from the birth of the job. Publishes: 2 to form, then 2 each for stop, plan and resume.
# Writes that owe something: form, stop, plan, resume. Decisions: 2 reports, 2 starts, the death, the verdict, ...
PLACES = [
    "after_load:1",
    *(f"after_decide:{n}" for n in (1, 2, 5, 6, 7, 8, 9, 10)),
    *(f"after_persist:{n}" for n in (1, 2, 3, 4)),
    *(f"after_publish_each:{n}" for n in range(1, 9)),
    *(f"after_clear:{n}" for n in (1, 2, 3, 4, 5)),
    *(f"before_ack:{n}" for n in (1, 2, 3, 4, 5)),
]


@asynccontextmanager
async def replaced_when_killed(first: PlannerProcess, second: PlannerProcess) -> AsyncIterator[None]:
    """Start `second` as soon as `first` is gone."""

    async def watch() -> None:
        while await first.ended(60) is None:
            pass
        second.spawn()

    first.spawn()
    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        first.kill()
        second.kill()


async def gang_of(agent: ScriptedAgent, cluster: str) -> Gang | None:
    stored = await KvGangs(JetStreamKeyValue(agent.connection, Bucket.GANGS, cluster=cluster)).load(agent.job_id)
    return stored.gang if stored else None


async def until_settled(agent: ScriptedAgent, cluster: str, version: int) -> Gang:
    """The record when the gang runs at `version` and owes nothing."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            gang = await gang_of(agent, cluster)
            if gang and gang.phase is Phase.RUNNING and gang.table.topology_version == version and not gang.pending:
                return gang
            await agent.catch_up()
            await asyncio.sleep(0.05)


@pytest.mark.asyncio
@pytest.mark.parametrize("place", PLACES)
async def test_planner_killed_at(place: str, nats_server: NatsServer, unique_name: str, tmp_path: Path) -> None:
    url = nats_server.url
    doomed = PlannerProcess(
        nats_url=url, cluster=unique_name, folder=tmp_path, name="doomed", env={"PHALANX_FAILPOINT": place}
    )
    heir = PlannerProcess(nats_url=url, cluster=unique_name, folder=tmp_path, name="heir")
    async with agents(url, unique_name, "a", "b", spec=SPEC) as (a, b), replaced_when_killed(doomed, heir):
        await a.join()
        await b.join()
        assert await a.until(StartWorkers, 1, LIMIT_S), doomed.log()
        await until_settled(a, unique_name, 1)
        await a.die(0, 1)
        await a.publish(verdict(a, 1))
        assert await a.until(StartWorkers, 2, LIMIT_S), heir.log() if heir.log_path.exists() else doomed.log()
        gang = await until_settled(a, unique_name, 2)
        assert await doomed.ended(0) == -9, f"{place} was not reached, so nothing was proved"
        for agent in (a, b):
            await agent.catch_up()
            assert agent.stored(StartWorkers) == [1, 2]
            assert agent.stored(StopWorkers) == [1]
        assert gang.restart_count == 1
        assert gang.nodes == ("a", "b")
        async with asyncio.timeout(LIMIT_S):
            # After the last acknowledgement the gang is settled already: the heir may not even have a log yet.
            while not heir.log_path.exists() or "service_ready" not in heir.log():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert heir.end() == 0
