"""Subjects: any name survives a round trip, no two names meet in one token, and nothing else parses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_contracts.registry import MESSAGES
from fault_contracts.subjects import (
    TOKEN_BYTES_MAX,
    Kind,
    Subject,
    SubjectError,
    decode_token,
    encode_token,
    parse_subject,
    pattern,
)

NAMES = st.text(min_size=1, max_size=64).filter(lambda name: 0 < len(name.encode("utf-8", "ignore")) <= TOKEN_BYTES_MAX)
PLAIN_NAMES = NAMES.filter(lambda name: not any(0xD800 <= ord(c) < 0xE000 for c in name))


@given(PLAIN_NAMES)
def test_a_name_survives_as_one_token(name: str) -> None:
    token = encode_token(name)
    assert decode_token(token) == name
    assert not set(token) & set(".*> \t\r\n")
    assert token.isascii()


@given(PLAIN_NAMES, PLAIN_NAMES)
def test_different_names_are_different_tokens(one: str, other: str) -> None:
    assert (encode_token(one) == encode_token(other)) == (one == other)


def test_upper_and_lower_case_are_different_names() -> None:
    assert encode_token("gpu-7") == "gpu-7"
    assert encode_token("GPU-7") == "=47=50=55-7"


@pytest.mark.parametrize("name", ["", "x" * 257, "ü" * 129])
def test_a_name_has_a_size(name: str) -> None:
    with pytest.raises(SubjectError):
        encode_token(name)


@pytest.mark.parametrize("token", ["", "A", "=4", "=4G", "=zz", "a.b", "*", ">", "=FF", "=ff", "a b", "=c3"])
def test_what_encode_never_gives_does_not_decode(token: str) -> None:
    with pytest.raises(SubjectError):
        decode_token(token)


@given(st.text(max_size=40))
def test_decoding_anything_gives_a_name_or_a_subject_error(token: str) -> None:
    try:
        name = decode_token(token)
    except SubjectError:
        return
    assert decode_token(encode_token(name)) == name


@given(PLAIN_NAMES, PLAIN_NAMES, st.sampled_from(MESSAGES))
def test_every_registered_subject_survives_a_round_trip(cluster: str, key: str, spec: object) -> None:
    subject = spec.subject(cluster, key)  # type: ignore[attr-defined]
    assert parse_subject(str(subject)) == subject


@pytest.mark.parametrize(
    "text",
    [
        "",
        "phx",
        "phx.evt.agent.reported.v1.c",
        "phx.evt.agent.reported.v1.c.k.more",
        "xhp.evt.agent.reported.v1.c.k",
        "phx.nothing.agent.reported.v1.c.k",
        "phx.evt.agent.reported.1.c.k",
        "phx.evt.agent.reported.v0.c.k",
        "phx.evt.agent.reported.v01.c.k",
        "phx.evt.agent.reported.v1..k",
        "phx.evt.agent.reported.v1.c.K",
        "phx.evt.agent.reported.v1.c.*",
    ],
)
def test_another_shape_is_refused(text: str) -> None:
    with pytest.raises(SubjectError):
        parse_subject(text)


def test_a_pattern_has_stars_where_nothing_was_named() -> None:
    assert pattern(Kind.GO, "gang", "stop_workers", 1, "C") == "phx.go.gang.stop_workers.v1.=43.*"
    assert pattern(Kind.EVT, "agent", "left", None, "c", "n.1") == "phx.evt.agent.left.*.c.n=2e1"
    subject = Subject(kind=Kind.EVT, context="agent", name="left", version=1, cluster="c", key="k")
    assert pattern(Kind.EVT, "agent", "left", 1, "c", "k") == str(subject)
