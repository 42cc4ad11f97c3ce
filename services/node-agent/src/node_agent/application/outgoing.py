"""Everything the agent reports leaves through here: sealed with an id, kept in the outbox, not waited for.

On the fault path nothing waits for a disk or a server.
The outbox publishes at once when the bus is up; when it is away the events wait there and training goes on.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from fault_contracts.envelope import Envelope, seal
from fault_contracts.payload import Payload
from node_agent.application.agent_life import AgentIdentity
from node_agent.application.control_ports import EventOutbox
from service_kit.ports import Clock


class Outgoing:
    """Seals payloads and hands them to the outbox in the order of the calls."""

    def __init__(self, identity: AgentIdentity, clock: Clock, outbox: EventOutbox) -> None:
        self._identity = identity
        self._clock = clock
        self._outbox = outbox
        self._numbers = count()
        self._handing_over: set[asyncio.Task[None]] = set()

    def seal(self, payload: Payload, *, causation_id: str = "", correlation_id: str = "") -> Envelope[Any]:
        """An envelope whose id comes from this life of the agent and a running number."""
        return seal(
            payload,
            source=f"node-agent/{self._identity.node_id}",
            cause_id=self._identity.instance_id,
            ordinal=next(self._numbers),
            time=self._clock.now(),
            causation_id=causation_id,
            correlation_id=correlation_id,
        )

    def send(
        self, payload: Payload, *, urgent: bool = False, causation_id: str = "", correlation_id: str = ""
    ) -> Envelope[Any]:
        """Seal and hand over without waiting; `drain` waits."""
        envelope = self.seal(payload, causation_id=causation_id, correlation_id=correlation_id)
        task = asyncio.get_running_loop().create_task(self._outbox.put(envelope, urgent=urgent))
        self._handing_over.add(task)
        task.add_done_callback(self._handed_over)
        return envelope

    async def drain(self) -> None:
        """Wait until the outbox has taken over everything sent so far."""
        while self._handing_over:
            await asyncio.wait(set(self._handing_over))

    def _handed_over(self, task: asyncio.Task[None]) -> None:
        self._handing_over.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # An outbox that cannot store is a broken promise: let the loop's handler show it with its traceback.
            task.get_loop().call_exception_handler(
                {"message": "an event could not be put into the outbox", "exception": task.exception(), "task": task}
            )
