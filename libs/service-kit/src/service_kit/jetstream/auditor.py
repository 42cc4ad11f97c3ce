"""Looks at everything on the bus and dead-letters what no handler would ever meet; see service_kit.audit.

One durable consumer for each stream, so that nothing is missed while the service is away, and one plain subscription
for subjects that no stream keeps. It works in batches, half a second behind: recovery must not wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from fault_contracts.registry import Stream, stream_spec
from fault_contracts.subjects import ROOT, Kind, encode_token
from service_kit.audit import AUDITED, passing_problem, stored_problem
from service_kit.cancellation import cancel_all
from service_kit.delivery import GiveUp
from service_kit.errors import ContractViolation
from service_kit.jetstream.ack_reply import ACK, TERM, read_receipt
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.consumer import ACK_WAIT_S
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.jetstream.durable import ensure_durable
from service_kit.jetstream.pull_pump import PullPump
from service_kit.logging import get_logger

BEHIND_S = 0.5
"""Long enough that an incident of a few hundred milliseconds is over; nobody waits for an audit."""
RETRY_S = 2.0
"""When a letter could not be stored: the bus is away."""
ACK_PENDING_MAX = 512
"""Messages of one stream that wait here at most."""
AT_ONCE = 32
"""Messages between two breaths of the loop: 3 ms."""
PASSING_MAX = 4_096
"""Passing messages that wait for a look; beyond it they are dropped and counted (slow consumer)."""

PASSING_KINDS = tuple(kind for kind in Kind if kind is not Kind.ASK)
"""Questions are left alone: a subscription of ours would be somebody who listens, so the server could no longer tell
the planner that nobody does, which is how a lost agent is noticed."""

log = get_logger(__name__)


class Auditor:
    """Implements service_kit.ports.Subscription. Several may run side by side: they share the durables."""

    def __init__(self, connection: Connection, *, cluster: str, name: str, dead_letters: DeadLetters) -> None:
        self._connection = connection
        self._cluster = cluster
        self._name = name
        self._dead_letters = dead_letters
        self._waiting: deque[Msg] = deque()
        self._pumps: list[PullPump] = []
        self._passing: list[Subscription] = []
        self._stopping = False
        self._working: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create the durables and begin."""
        durable = f"{encode_token(self._name)}-{encode_token(self._cluster)}"
        for stream in AUDITED:

            async def ensure(stream: Stream = stream) -> None:
                await ensure_durable(
                    self._connection,
                    stream=stream,
                    name=durable,
                    filters=list(stream_spec(stream).subjects),
                    from_now=False,
                    ack_wait_s=ACK_WAIT_S,
                    ack_pending_max=ACK_PENDING_MAX,
                )

            await ensure()
            pump = PullPump(self._connection, stream=stream, consumer=durable, on_message=self._take, ensure=ensure)
            self._pumps.append(pump)
            await pump.start()
        for kind in PASSING_KINDS:
            passing = await self._connection.client.subscribe(
                f"{ROOT}.{kind}.>", queue=durable, cb=self._on_passing, pending_msgs_limit=PASSING_MAX
            )
            self._passing.append(passing)

    async def stop(self) -> None:
        """What has not been looked at comes again after ack_wait, to whoever audits then."""
        self._stopping = True
        for passing in self._passing:
            await self._connection.end_subscription(passing)
        await asyncio.gather(*(pump.stop() for pump in self._pumps))
        if self._working is not None:
            await cancel_all([self._working])

    def _take(self, msg: Msg) -> None:
        self._waiting.append(msg)
        if not self._stopping and (self._working is None or self._working.done()):
            self._working = asyncio.create_task(self._work(), name=f"audit {self._name}")

    async def _work(self) -> None:
        await asyncio.sleep(BEHIND_S)
        while self._waiting:
            well: list[str] = []
            for _ in range(min(AT_ONCE, len(self._waiting))):
                msg = self._waiting[0]
                problem = stored_problem(msg.data, msg.subject, cluster=self._cluster)
                if problem is None:
                    well.append(msg.reply)
                elif not await self._condemn(msg, problem):
                    await asyncio.sleep(RETRY_S)
                    break
                self._waiting.popleft()
            await self._tell(well, ACK)
            await asyncio.sleep(0)

    async def _condemn(self, msg: Msg, problem: str) -> bool:
        """Write the letter and tell the server; False: not now."""
        receipt = read_receipt(msg.reply)
        if not await self._bury(msg, problem, receipt.stream, receipt.stream_sequence, receipt.deliveries):
            return False
        await self._tell([msg.reply], TERM)
        return True

    async def _tell(self, replies: list[str], receipt: bytes) -> None:
        try:
            await self._connection.client.publish_to_all(replies, receipt)
        except (NatsError, OSError) as error:
            # It comes again, and its letter has the same id.
            log.warning("receipt_lost", consumer=self._name, messages=len(replies), error=str(error))

    async def _on_passing(self, msg: Msg) -> None:
        problem = passing_problem(msg.subject, self._cluster)
        if problem is None or (msg.headers is not None and "Nats-Stream" in msg.headers):
            return  # well, or a command as its stream republished it, which is judged where it is kept
        await self._bury(msg, problem, "", None, 1)

    async def _bury(self, msg: Msg, problem: str, stream: str, sequence: int | None, deliveries: int) -> bool:
        return await self._dead_letters.put(
            GiveUp(error=ContractViolation.__name__, message=problem),
            msg.data,
            consumer=self._name,
            subject=msg.subject,
            stream=stream,
            stream_sequence=sequence,
            deliveries=deliveries,
        )
