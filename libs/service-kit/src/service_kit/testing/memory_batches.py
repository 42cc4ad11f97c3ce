"""Batches of one message: whoever can take those can take larger ones, and the broker's trouble stays per message."""

from __future__ import annotations

from service_kit.ports import Batch, BatchHandler, Delivery, Handler

LIFE = "memory"
"""A broker lives once."""


def one_by_one(handler: BatchHandler) -> Handler:
    """The handler of batches as one of single messages."""

    async def handle(delivery: Delivery) -> None:
        await handler(Batch(deliveries=(delivery,), life=LIFE, settled=0))

    return handle
