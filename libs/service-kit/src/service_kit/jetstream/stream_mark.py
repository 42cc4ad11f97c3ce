"""Up to which sequence a durable's messages are settled for good, and in which life of the stream.

Asked of the server twice a second while there is work. What it answered stays true when the server forgets later
acknowledgements in a crash: the number only says that whoever acknowledged had written down what it did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from service_kit.errors import BusUnavailable
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.server_answer import ServerRefusal
from service_kit.jetstream.streams import call_api
from service_kit.logging import get_logger

EVERY_S = 0.5

log = get_logger(__name__)


class StreamMark:
    """Of one durable.

    Attributes:
        life: when the stream was created, as the server spells it.
        settled: the acknowledgement floor as last heard; it never goes back within one life.
    """

    def __init__(self, connection: Connection, *, stream: str, consumer: str) -> None:
        self._connection = connection
        self._stream = stream
        self._consumer = consumer
        self.life = ""
        self.settled = 0

    async def read_life(self) -> None:
        """To be called whenever the consumer was made sure of: it goes with its stream.

        Raises:
            BusUnavailable: no answer.
        """
        try:
            info = await call_api(self._connection, f"STREAM.INFO.{self._stream}", {})
        except ServerRefusal as refusal:
            raise refusal.as_failure() from refusal
        life = str(info["created"])
        if life != self.life:
            self.life, self.settled = life, 0

    async def refresh(self) -> None:
        """Hear the floor anew. No answer leaves it as it is: an old floor is true as well."""
        life = self.life
        try:
            info = await call_api(self._connection, f"CONSUMER.INFO.{self._stream}.{self._consumer}", {})
        except (ServerRefusal, BusUnavailable) as error:
            log.debug("mark_not_read", consumer=self._consumer, error=str(error))
            return
        if life == self.life:
            self.settled = max(self.settled, int(info["ack_floor"]["stream_seq"]))

    async def follow(self, busy: Callable[[], bool]) -> None:
        """Keep it fresh while there is work, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if busy() and self._connection.is_connected:
                await self.refresh()
