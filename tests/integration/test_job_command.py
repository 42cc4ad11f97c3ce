"""`phalanx job` on what a real planner wrote to a real bus: labels over a restart, model and data, paths by rank."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from planner_cast import PlannerProcess, ScriptedAgent, agents, verdict

from fault_contracts.agent import CheckpointReported, JobSpec, RankLabelsReported, StepReported
from fault_contracts.commands import StartWorkers
from phalanx_cli.commands.job_records import job_views
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.timeout(300)]
SPEC = JobSpec(nnodes=2, nproc_per_node=2)
LIMIT_S = 60.0


async def job(url: str, cluster: str, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "phalanx_cli.main", "job", *words),
        env={**os.environ, "NATS_URL": url, "PHALANX_CLUSTER": cluster},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def until(url: str, cluster: str, job_id: str, **wanted: Any) -> dict[str, Any]:
    """The job as data, once it has the wanted values."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            for view in await job_views(BusSettings(nats_url=url, cluster=cluster), job_id):
                if all(view[name] == value for name, value in wanted.items()):
                    return view
            await asyncio.sleep(0.1)


async def say(agent: ScriptedAgent, ranks: range, version: int) -> None:
    """What the ranks of a node report: labels, a step, and a checkpoint in two parts."""
    for rank in ranks:
        await agent.publish(
            RankLabelsReported(
                node_id=agent.node_id,
                job_id=agent.job_id,
                topology_version=version,
                rank=rank,
                labels={"dp": str(rank // 2), "tp": str(rank % 2)},
            )
        )
        for kind in ("model", "data"):
            await agent.publish(
                CheckpointReported(
                    node_id=agent.node_id,
                    job_id=agent.job_id,
                    topology_version=version,
                    rank=rank,
                    step=20,
                    path=f"/ckpt/20/{kind}-{rank}",
                    kind=kind,
                    saved_at=agent.clock.now(),
                )
            )
    await agent.publish(
        StepReported(
            node_id=agent.node_id,
            job_id=agent.job_id,
            topology_version=version,
            step=25,
            first=True,
            reported_at=agent.clock.now(),
        )
    )


async def test_a_job_before_and_after_a_restart(nats_server: NatsServer, unique_name: str, tmp_path: Path) -> None:
    url = nats_server.url
    planner = PlannerProcess(nats_url=url, cluster=unique_name, folder=tmp_path, name="planner")
    planner.spawn()
    try:
        async with agents(url, unique_name, "a", "b", spec=SPEC) as (a, b):
            await a.join()
            await b.join()
            await until(url, unique_name, a.job_id, phase="running", topology_version=1)
            await b.publish(
                RankLabelsReported(
                    node_id="b", job_id=a.job_id, topology_version=1, rank=99, labels={"dp": "no such rank"}
                )
            )
            await say(a, range(2), 1)
            await say(b, range(2, 4), 1)
            paths = {str(rank): f"/ckpt/20/model-{rank}" for rank in range(4)}
            async with asyncio.timeout(LIMIT_S):
                while True:
                    view = await until(url, unique_name, a.job_id, step=25)
                    if view["ranks"][3]["labels"] and (view["checkpoint"] or {}).get("paths") == paths:
                        break
            await b.die(3, 1)
            await b.publish(verdict(b, 1))
            view = await until(url, unique_name, a.job_id, topology_version=2)
            assert [rank["labels"] for rank in view["ranks"]] == [
                {"dp": str(rank // 2), "tp": str(rank % 2)} for rank in range(4)
            ]
            assert (view["restarts"]["done"], view["started_from"]) == (1, 20)
            started = [command for command in a.commands if isinstance(command, StartWorkers)][-1]
            assert started.checkpoint is not None
            assert (started.checkpoint.data_path, len(started.checkpoint.paths)) == ("/ckpt/20/data-0", 1)
            async with asyncio.timeout(LIMIT_S):
                while "(yet)" in (text := (await job(url, unique_name, a.job_id))[1]):
                    pass  # the record is written before its entries are published
            assert "checkpoint   step 20" in text
            assert "journal      1 incident, since" in text
            assert "evidence rank 3 on b ended with" in text, "the death is found by its id in the agents' stream"
            # The verdict may be older than the incident: nobody waits for the other.
            assert max(text.index("  incident opened"), text.index("  verdict  ")) < text.index("  plan     restart")
            assert "hole" not in text
            _, raw, _ = await job(url, unique_name, a.job_id, "--json")
            data = json.loads(raw)
            assert data["ranks"] == view["ranks"]
            [run] = data["journal"]["runs"]
            [incident] = run["incidents"]
            assert (run["holes"], data["journal"]["missing_at_end"], incident["open"]) == ([], "", True)
            assert incident["verdicts"][0]["job_id"] == a.job_id
            assert data["account"]["incidents"] == 0, "it is charged when it closes"
            _, listed, _ = await job(url, unique_name)
            assert a.job_id in listed
            code, _, error = await job(url, unique_name, "no-such-job")
            assert code == 1
            assert "no job 'no-such-job' is known" in error
    finally:
        planner.kill()
    assert "labels.refused" in planner.log()
