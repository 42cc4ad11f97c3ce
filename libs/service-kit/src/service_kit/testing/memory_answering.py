"""A question that a MemoryBus serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from service_kit.testing.memory_broker import MemoryBroker


class Answering:
    """A served question."""

    def __init__(
        self, broker: MemoryBroker, subject: str, served: tuple[str, Callable[[bytes], Awaitable[bytes]]]
    ) -> None:
        self._serving = broker.answers.setdefault(subject, [])
        self._served = served
        self._serving.append(served)

    async def stop(self) -> None:
        """See the port."""
        self.kill()

    def kill(self) -> None:
        """Gone; when nobody else serves it, the next question hears that nobody listens."""
        if self._served in self._serving:
            self._serving.remove(self._served)
