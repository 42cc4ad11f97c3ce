"""The frame codec: any cut, any garbage, and its bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_link.frames import MAX_FRAME_BYTES, FrameError, FrameReader, FrameTooLarge, MalformedFrame, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
messages = st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=5)


@given(messages, st.lists(st.integers(1, 50), min_size=1))
def test_any_objects_survive_any_cut(sent: list[dict[str, Any]], cuts: list[int]) -> None:
    stream = b"".join(encode(message) for message in sent)
    reader = FrameReader()
    got: list[dict[str, Any]] = []
    place = turn = 0
    while place < len(stream):
        size = cuts[turn % len(cuts)]
        reader.receive_data(stream[place : place + size])
        place, turn = place + size, turn + 1
        while (message := reader.next_message()) is not None:
            got.append(message)
    assert got == sent
    assert reader.pending_bytes == 0


@given(st.binary(max_size=300))
def test_garbage_gives_objects_or_a_frame_error_and_nothing_else(data: bytes) -> None:
    reader = FrameReader(max_bytes=128)
    reader.receive_data(data)
    try:
        while (message := reader.next_message()) is not None:
            assert isinstance(message, dict)
    except FrameError:
        pass  # the one refusal that is allowed


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b'{"a":NaN}', b'{"a":1e', b"\xff{}", b"[" * 50_000, b'{"a":' + b"9" * 5000 + b"}"]
)
def test_body_that_is_no_object_is_malformed(body: bytes) -> None:
    reader = FrameReader()
    reader.receive_data(len(body).to_bytes(4, "big") + body)
    with pytest.raises(MalformedFrame):
        reader.next_message()


def test_too_large_is_refused_before_the_body_comes() -> None:
    reader = FrameReader()
    reader.receive_data((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(FrameTooLarge):
        reader.next_message()
    with pytest.raises(FrameTooLarge):
        encode({"a": "x" * MAX_FRAME_BYTES})
    assert json.loads(encode({"a": "x" * (MAX_FRAME_BYTES - 8)})[4:])


def test_what_json_cannot_say_is_refused_at_the_sender() -> None:
    for value in (float("nan"), object(), b"bytes"):
        with pytest.raises(MalformedFrame):
            encode({"a": value})
