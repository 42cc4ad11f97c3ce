"""A planner that does what the test says, on the real bus: the counterpart of real agents in the agent's tests."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from fault_contracts import agent as reports
from fault_contracts.commands import CheckpointRef, EndJob, LeaderEpoch, StartWorkers, StopWorkers
from fault_contracts.envelope import derived_id, seal
from fault_contracts.lone_agent import AgentActedAlone
from fault_contracts.payload import Fence, Payload, Reason
from fault_contracts.preemption import PreemptionNoticed, RequestCheckpoint
from fault_contracts.recovery import JobOutcome, NodeAssignment
from fault_contracts.recovery_level import RecoveryLevel
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

P = TypeVar("P", bound=Payload)

STORED = (
    reports.AgentReported,
    reports.AgentLeft,
    reports.WorkerExited,
    reports.WorkersStopped,
    reports.WorkersStarted,
    reports.WorkersCompleted,
    reports.CommandRefused,
    reports.StepReported,
    reports.CheckpointReported,
    reports.RankLabelsReported,
    PreemptionNoticed,
    AgentActedAlone,
)


class ScriptedPlanner:
    """Collects what agents report; sends what it is told to."""

    def __init__(self, url: str, job_id: str, *, cluster: str) -> None:
        self.job_id = job_id
        self.cluster = cluster
        self._settings = BusSettings(nats_url=url, cluster=cluster)
        self.seen: list[Payload] = []
        self._news = asyncio.Condition()
        self.epoch = 0
        self._sent = 0
        self.node_rows: tuple[NodeAssignment, ...] = ()

    async def __aenter__(self) -> "ScriptedPlanner":
        self._connection = await connect(self._settings, name="scripted-planner")
        await ensure_streams(self._connection, self._settings)
        self.bus = JetStreamBus(self._connection, cluster=self.cluster)
        self._consuming = await self.bus.consume(durable=f"scripted-{self.job_id}", messages=STORED, handler=self._take)
        leader = LeaderEpoch(instance_id="scripted", taken_at=datetime.now(UTC))
        self.epoch = await self.bus.take_epoch(self._seal(leader))
        self._answering = await self.bus.answer(what="planner", key="leader", reply=self._say_who)
        return self

    async def _say_who(self, _question: bytes) -> bytes:
        return b"scripted"

    async def be_silent(self) -> None:
        """Answer nobody any more, as a planner that is gone."""
        await self._answering.stop()

    async def __aexit__(self, *_: object) -> None:
        await self._consuming.stop()
        await self._connection.close()

    async def _take(self, delivery: Delivery) -> None:
        data = delivery.envelope.data
        if data.job_id != self.job_id:
            return
        async with self._news:
            self.seen.append(data)
            self._news.notify_all()

    def of(self, model: type[P]) -> list[P]:
        """Everything of one type, in order."""
        return [payload for payload in self.seen if isinstance(payload, model)]

    async def wait_for(
        self, model: type[P], matches: Callable[[P], bool] = lambda _: True, *, count: int = 1, timeout_s: float = 30.0
    ) -> P:
        """The count-th report of a type that matches."""

        def found() -> list[P]:
            return [payload for payload in self.of(model) if matches(payload)]

        try:
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(lambda: len(found()) >= count)
        except TimeoutError:
            names = [type(payload).__name__ for payload in self.seen]
            raise AssertionError(f"no {model.__name__} within {timeout_s} s; seen: {names}") from None
        return found()[count - 1]

    def _seal(self, payload: Payload, ordinal: int = 0) -> Any:
        self._sent += 1
        return seal(
            payload, source="scripted", cause_id=f"{self.job_id}-{self._sent}", time=datetime.now(UTC), ordinal=ordinal
        )

    def _command(self, verb: str, version: int, attempt: int, valid_s: float, operation: str) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "fence": Fence(topology_version=version, attempt=attempt, incident_id="", epoch=self.epoch),
            "operation_id": operation or derived_id(self.job_id, verb, version, attempt),
            "expires_at": datetime.now(UTC) + timedelta(seconds=valid_s),
        }

    async def start(
        self,
        version: int,
        agents: Sequence[reports.AgentReported],
        *,
        master_port: int,
        attempt: int = 0,
        checkpoint: CheckpointRef | None = None,
        restart_count: int = 0,
        base_version: int = 0,
        valid_s: float = 60.0,
        operation: str = "",
    ) -> StartWorkers:
        """Order a start on these agents, in this order of node_rank."""
        rows = tuple(
            NodeAssignment(node_rank=place, node_id=a.node_id, address=a.address, nproc=a.spec.nproc_per_node)
            for place, a in enumerate(agents)
        )
        command = StartWorkers(
            **self._command("start", version, attempt, valid_s, operation),
            base_version=base_version,
            rows=rows,
            nnodes=len(agents),
            world_size=sum(row.nproc for row in rows),
            master_addr=agents[0].address,
            master_port=master_port,
            checkpoint=checkpoint,
            restart_count=restart_count,
            level=RecoveryLevel.PROCESS,
        )
        await self.bus.publish(self._seal(command), epoch=self.epoch)
        return command

    async def stop(
        self, version: int, *, attempt: int = 1, grace_s: float = 0.2, valid_s: float = 60.0, operation: str = ""
    ) -> StopWorkers:
        """Order a stop."""
        command = StopWorkers(
            **self._command("stop", version, attempt, valid_s, operation),
            grace_s=grace_s,
            reason=Reason(rule_id="test.stop", sentence="the test says so"),
        )
        await self.bus.publish(self._seal(command), epoch=self.epoch)
        return command

    async def request_checkpoint(self, version: int, *, at_step: int) -> RequestCheckpoint:
        """Ask for a checkpoint after a step."""
        command = RequestCheckpoint(
            **self._command("request", version, 0, 60.0, ""),
            at_step=at_step,
            within_s=30.0,
            reason=Reason(rule_id="test.request", sentence="the test says so"),
        )
        await self.bus.publish(self._seal(command), epoch=self.epoch)
        return command

    async def end(self, version: int, outcome: JobOutcome, *, sentence: str = "the test says so") -> EndJob:
        """Order the end."""
        command = EndJob(
            **self._command("end", version, 0, 60.0, ""),
            outcome=outcome,
            reason=Reason(rule_id="test.end", sentence=sentence),
        )
        await self.bus.publish(self._seal(command), epoch=self.epoch)
        return command
