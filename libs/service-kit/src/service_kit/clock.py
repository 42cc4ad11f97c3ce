"""The only reader of the machine's clocks."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """service_kit.ports.Clock on the machine's clocks."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the one place that reads it

    def monotonic_s(self) -> float:
        """CLOCK_MONOTONIC in seconds."""
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(duration_s)
