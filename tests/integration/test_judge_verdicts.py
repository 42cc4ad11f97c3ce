"""WorkerExited in, FaultClassified out: both services as real processes on a real nats-server, killed at every step."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from fault_contracts.agent import ExitStatus, OomKill, WorkerError, WorkerExited
from fault_contracts.envelope import Envelope, seal
from fault_contracts.faults import FaultClassified
from fault_contracts.health import ConditionRaised
from fault_contracts.payload import Reason
from fault_contracts.recovery import IncidentOpened, NodeLost
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

pytestmark = pytest.mark.integration

GLOO_CLOSED = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:59016. This is typically caused by a remote worker crashing."
)
FAILPOINTS = ("after_load", "after_decide", "after_persist", "after_publish", "after_clear", "before_ack")
MODULES = {"health-ingest": "health_ingest.main", "fault-classifier": "fault_classifier.main"}
INSTALLED_S = 20.0
"""A service imports and connects in about a second; a loaded machine may take ten times that."""


def exited(job: str, rank: int, *, version: int = 1, signal: int | None = None, **more: object) -> WorkerExited:
    error = more.pop("error", None)
    node = f"node-{rank // 2}"
    return WorkerExited(
        node_id=node,
        instance_id=f"{job}-{node}",
        job_id=job,
        topology_version=version,
        ordinal=int(str(more.pop("ordinal", 0))),
        exit=ExitStatus(
            rank=rank,
            local_rank=rank % 2,
            pid=1_000 + rank,
            exit_code=None if signal else 1,
            signal=signal,
            oom_kill=OomKill.NO if signal else OomKill.UNKNOWN,
        ),
        error=error,
        ran_s=5.0,
        observed_at=datetime.now(UTC),
        **more,
    )


def lost_peer() -> WorkerError:
    return WorkerError(type="RuntimeError", message=GLOO_CLOSED, fingerprint="gloo-closed", source="error_file")


@dataclass
class Services:
    """Starts services as processes and ends what it started."""

    url: str
    cluster: str
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, **env: str) -> None:
        ready = self.folder / f"{name}.ready"
        ready.unlink(missing_ok=True)
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PHALANX_", "NATS_"))}
        self.running[name] = subprocess.Popen(
            [sys.executable, "-m", MODULES[name]],
            env=clean | {"NATS_URL": self.url, "PHALANX_CLUSTER": self.cluster, "PHALANX_READY_FILE": str(ready)} | env,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"{name}.log").open("ab"),
        )

    async def ready(self, *names: str) -> None:
        async with asyncio.timeout(INSTALLED_S):
            for name in names:
                while not (self.folder / f"{name}.ready").exists():
                    assert self.running[name].poll() is None, self.log(name)
                    await asyncio.sleep(0.02)

    async def died(self, name: str) -> int:
        try:
            return await asyncio.to_thread(self.running[name].wait, INSTALLED_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} does not end; its log:\n{self.log(name)}") from None

    async def end(self, name: str) -> None:
        self.running[name].terminate()
        await self.died(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-4_000:]

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass
class Desk:
    """The agents' and the planner's side of the bus."""

    bus: JetStreamBus
    verdicts: list[Envelope[FaultClassified]] = field(default_factory=list)
    conditions: list[Envelope[ConditionRaised]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, delivery: Delivery) -> None:
        kept = self.verdicts if isinstance(delivery.envelope.data, FaultClassified) else self.conditions
        kept.append(delivery.envelope)
        self.news.set()

    async def say(self, payload: WorkerExited | IncidentOpened | NodeLost, cause: str) -> None:
        await self.bus.publish(seal(payload, source="/test", cause_id=cause, time=datetime.now(UTC)))

    def of(self, job: str) -> list[FaultClassified]:
        """Final ones."""
        return [each.data for each in self.verdicts if each.data.job_id == job and not each.data.provisional]

    async def until(self, holds: Callable[[], bool], limit_s: float = INSTALLED_S) -> None:
        async with asyncio.timeout(limit_s):
            while not holds():
                self.news.clear()
                await self.news.wait()


@pytest.fixture
def services(nats_server, unique_name: str, tmp_path: Path) -> Iterator[Services]:
    made = Services(url=nats_server.url, cluster=unique_name, folder=tmp_path)
    yield made
    made.stop()


@pytest_asyncio.fixture
async def desk(nats_server, unique_name: str) -> AsyncIterator[Desk]:
    settings = BusSettings(nats_url=nats_server.url, cluster=unique_name)
    connection = await connect(settings, name="judge-test")
    await ensure_streams(connection, settings)
    made = Desk(bus=JetStreamBus(connection, cluster=unique_name))
    reading = await made.bus.consume(
        durable="judge-test", messages=[FaultClassified, ConditionRaised], handler=made.take
    )
    yield made
    await reading.stop()
    await connection.close()


@pytest.mark.asyncio
async def test_kill_of_a_rank_is_judged_at_once_and_its_victims_change_nothing(services: Services, desk: Desk) -> None:
    services.start("health-ingest")
    services.start("fault-classifier")
    await services.ready("health-ingest", "fault-classifier")
    times_ms: list[float] = []
    for place in range(10):
        job = f"job-{place}"
        begun = asyncio.get_running_loop().time()
        await desk.say(exited(job, 2, signal=9), f"{job}-2")
        await desk.until(lambda job=job: len(desk.of(job)) == 1)
        times_ms.append((asyncio.get_running_loop().time() - begun) * 1e3)
        await desk.say(exited(job, 0, error=lost_peer()), f"{job}-0")
    times_ms.sort()
    print(
        f"\nWorkerExited to FaultClassified, ms: median {times_ms[5]:.1f} min {times_ms[0]:.1f} max {times_ms[-1]:.1f}"
    )
    verdict = desk.of("job-3")[0]
    assert (verdict.attribution, verdict.cause, verdict.action) == ("platform", "process_killed", "restart_process")
    assert verdict.culprit.rank == 2
    assert verdict.culprit.node_id == "node-1"
    await desk.until(lambda: len(desk.conditions) == 20)
    await asyncio.sleep(0.2)  # time for a second verdict that must not come
    assert len(desk.verdicts) == 10


@pytest.mark.asyncio
async def test_only_victims_wait_for_the_deadline_and_a_lost_node_is_the_cause_when_it_comes(
    services: Services, desk: Desk
) -> None:
    services.start("health-ingest")
    services.start("fault-classifier", PHALANX_VERDICT_WAIT="1.0")
    await services.ready("health-ingest", "fault-classifier")
    for job in ("alone", "caused"):
        await desk.say(exited(job, 0, error=lost_peer()), f"{job}-0")
        await desk.say(opened(job), f"{job}-incident")
    await desk.until(lambda: len(desk.conditions) == 2 and len(desk.verdicts) >= 2)
    assert [(each.data.cause, each.data.provisional) for each in desk.verdicts] == [("communication_error", True)] * 2
    lost = NodeLost(
        job_id="caused",
        node_id="node-1",
        topology_version=1,
        reason=Reason(rule_id="agent.no_answer", sentence="no responders for 1.5 s"),
        lost_at=datetime.now(UTC),
    )
    await desk.say(lost, "lost")
    await desk.until(lambda: len(desk.of("caused")) == 1, 0.5)
    assert (desk.of("caused")[0].attribution, desk.of("caused")[0].cause) == ("platform", "agent_lost")
    assert desk.of("caused")[0].culprit.node_id == "node-1"
    await desk.until(lambda: len(desk.of("alone")) == 1)
    assert (desk.of("alone")[0].attribution, desk.of("alone")[0].cause) == ("unknown", "communication_error")
    assert desk.verdicts[-1].correlationid == "incident-alone"


@pytest.mark.timeout(400)
@pytest.mark.asyncio
async def test_kills_at_every_step_of_both_services_lose_no_verdict_and_double_none(
    services: Services, desk: Desk
) -> None:
    """One job per kill, one after the other, and each of them judged as soon as the killed service is back.

    What was persisted comes out at the restart; what was only in hand is reclaimed and does not wait 30 s (ack_wait).
    """
    for name in MODULES:
        services.start(name)
    await services.ready(*MODULES)
    jobs: list[str] = []
    for name in MODULES:
        for failpoint in FAILPOINTS:
            await services.end(name)
            services.start(name, PHALANX_FAILPOINT=failpoint)
            await services.ready(name)
            jobs.append(f"{name}-{failpoint}")
            await desk.say(exited(jobs[-1], 2, signal=9), jobs[-1])
            assert await services.died(name) == -9, services.log(name)
            services.start(name)
            await services.ready(name)
            await desk.until(lambda job=jobs[-1]: bool(desk.of(job)), 10)
    await asyncio.sleep(0.5)  # time for a second verdict that must not come
    assert {job: [each.cause for each in desk.of(job)] for job in jobs} == {job: ["process_killed"] for job in jobs}
    assert len(desk.conditions) == len(jobs)


@pytest.mark.asyncio
async def test_bad_settings_stop_the_start_and_name_the_setting(services: Services) -> None:
    services.start("health-ingest", PHALANX_GOOD_SAMPLES_MIN="0")
    services.start("fault-classifier", PHALANX_FAILPOINT="Not A Name")
    assert await services.died("health-ingest") == 78
    assert await services.died("fault-classifier") == 78
    assert "good_samples_min is 0" in services.log("health-ingest")
    assert "failpoint" in services.log("fault-classifier")


@pytest.mark.asyncio
async def test_a_bad_rule_stops_the_start_and_names_file_line_and_reason(services: Services, tmp_path: Path) -> None:
    causes = tmp_path / "site" / "causes"
    causes.mkdir(parents=True)
    (causes / "own.yaml").write_text("causes:\n  - id: user.own\n    attribution: nobody\n")
    services.start("fault-classifier", PHALANX_RULES=str(tmp_path / "site"))
    assert await services.died("fault-classifier") == 78
    assert "own.yaml:3" in services.log("fault-classifier")
    assert "attribution" in services.log("fault-classifier")


def opened(job: str) -> IncidentOpened:
    return IncidentOpened(
        incident_id=f"incident-{job}",
        job_id=job,
        topology_version=1,
        trigger=Reason(rule_id="worker_exit", sentence="rank 0 died"),
        fault_observed_at=datetime.now(UTC),
        opened_at=datetime.now(UTC),
    )


def test_the_log_of_a_service_is_json(tmp_path: Path) -> None:
    """A line that is not JSON would be lost to whoever collects logs."""
    log = tmp_path / "log"
    with log.open("wb") as sink:
        code = subprocess.run(
            [sys.executable, "-m", "fault_classifier.main"],
            env={**os.environ, "NATS_URL": "nats://127.0.0.1:1", "PHALANX_CONNECT_LIMIT": "0.5"},
            stderr=sink,
            timeout=60,
            check=False,
        ).returncode
    assert code == 69
    assert all(json.loads(line) for line in log.read_text().splitlines())
