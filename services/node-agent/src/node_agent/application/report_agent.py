"""Tell the planner that this agent is here: reported, heartbeat, answer to a ping, question of admission."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fault_contracts.agent import AgentHeartbeat, AgentLeft, AgentReported
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import MasterPort
from node_agent.application.outgoing import Outgoing
from service_kit.errors import TransientError
from service_kit.ports import Bus, Clock

ADMISSION_TIMEOUT_S = 2.0
"""A planner that is busy electing a leader answers later; no answer is not fatal, the start command will say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether this agent may take part; `admitted` None: nobody answered."""

    admitted: bool | None
    reason: str = ""


class AgentReporter:
    """Speaks for the agent itself; workers are the business of others."""

    def __init__(
        self, life: AgentLife, bus: Bus, outgoing: Outgoing, port: MasterPort, clock: Clock, *, heartbeat_s: float
    ) -> None:
        self._life = life
        self._bus = bus
        self._outgoing = outgoing
        self._port = port
        self._clock = clock
        self._heartbeat_s = heartbeat_s

    def report(self) -> None:
        """Say in which state this agent is."""
        life = self._life
        self._outgoing.send(
            AgentReported(
                node_id=life.identity.node_id,
                instance_id=life.identity.instance_id,
                job_id=life.identity.job_id,
                spec=life.spec,
                node_rank_wanted=life.identity.node_rank_wanted,
                node_labels=dict(life.identity.labels),
                address=life.identity.address,
                master_port=self._port.number,
                phase=life.phase,
                topology_version=life.topology_version,
                pid=life.identity.pid,
                host=life.identity.host,
                in_process=life.in_process,
                checkpoint_found=life.checkpoint_found,
                reported_at=self._clock.now(),
            ),
            urgent=True,
        )

    def leave(self, reason: str) -> None:
        """Say that this agent goes on purpose, with its ranks stopped."""
        identity = self._life.identity
        self._outgoing.send(
            AgentLeft(
                node_id=identity.node_id,
                instance_id=identity.instance_id,
                job_id=identity.job_id,
                reason=reason[:2_048],
                left_at=self._clock.now(),
            ),
            urgent=True,
        )

    async def beat(self) -> None:
        """One heartbeat; one that cannot be sent is not kept, the next one replaces it."""
        life = self._life
        heartbeat = AgentHeartbeat(
            node_id=life.identity.node_id,
            instance_id=life.identity.instance_id,
            job_id=life.identity.job_id,
            phase=life.phase,
            topology_version=life.topology_version,
            step=None if life.progress is None else life.progress.step,
        )
        try:
            await self._bus.publish(self._outgoing.seal(heartbeat))
        except TransientError:
            # The connection's own notice has told the person; the planner sees the silence.
            pass

    async def beat_forever(self) -> None:
        """A heartbeat every `heartbeat_s` until cancelled."""
        while True:
            await self.beat()
            await self._clock.sleep(self._heartbeat_s)

    async def answer_ping(self, _question: bytes) -> bytes:
        """Reply to `ask(what="ping")`: the agent is there, whatever its heartbeats do."""
        life = self._life
        return json.dumps(
            {
                "instance_id": life.identity.instance_id,
                "phase": life.phase.value,
                "topology_version": life.topology_version,
            }
        ).encode()

    async def ask_admission(self) -> Admission:
        """Ask once whether the planner takes this agent."""
        identity = self._life.identity
        question = {
            "node_id": identity.node_id,
            "instance_id": identity.instance_id,
            "spec": self._life.spec.model_dump(mode="json"),
        }
        try:
            answer = await self._bus.ask(
                what="admission",
                key=identity.job_id,
                body=json.dumps(question).encode(),
                timeout_s=ADMISSION_TIMEOUT_S,
            )
        except TransientError as error:
            return Admission(admitted=None, reason=str(error))
        if answer is None:
            return Admission(admitted=None, reason="no planner answers yet")
        self._life.hear_planner(self._clock)
        return _read_admission(answer)


def _read_admission(answer: bytes) -> Admission:
    try:
        said = json.loads(answer)
        return Admission(admitted=bool(said["admitted"]), reason=str(said.get("reason", ""))[:2_048])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Admission(admitted=None, reason=f"the planner's answer is not understood: {error}")
