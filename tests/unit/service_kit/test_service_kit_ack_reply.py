"""Both forms of a delivery's reply subject."""

import pytest

from service_kit.jetstream.ack_reply import Receipt, read_receipt

RECEIPT = Receipt(stream="AGENTS", stream_sequence=42, deliveries=3, stored_ns="1700000000000000000")


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.AGENTS.reader.3.42.7.1700000000000000000.5",
        "$JS.ACK._.ACCHASH.AGENTS.reader.3.42.7.1700000000000000000.5",
        "$JS.ACK.hub.ACCHASH.AGENTS.reader.3.42.7.1700000000000000000.5.random",
    ],
)
def test_place_and_count_are_read(reply: str) -> None:
    assert read_receipt(reply) == RECEIPT


@pytest.mark.parametrize("reply", ["", "_INBOX.x.y", "$JS.ACK.AGENTS", "$JS.ACK.AGENTS.reader.x.y.7.1.5"])
def test_anything_else_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_receipt(reply)
