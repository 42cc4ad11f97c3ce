"""The envelope: what is sealed can be opened, bad input is one error with a place, ids follow from their cause."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_contracts.agent import AgentLeft, StepReported
from fault_contracts.envelope import ENVELOPE_BYTES_MAX, EnvelopeError, derived_id, open_envelope, seal
from fault_contracts.health import Component, SignalObserved
from fault_contracts.payload import Health

AT = datetime(2030, 1, 1, tzinfo=UTC)


def a_step(step: int = 1, node_id: str = "node-0") -> StepReported:
    return StepReported(node_id=node_id, job_id="job", topology_version=1, step=step, first=False, reported_at=AT)


def sealed(payload: StepReported | AgentLeft | SignalObserved, cause_id: str = "cause", ordinal: int = 0):
    return seal(payload, source="/test", cause_id=cause_id, time=AT, ordinal=ordinal)


def with_changes(**changes: object) -> bytes:
    raw = json.loads(sealed(a_step()).to_bytes())
    return json.dumps({key: value for key, value in {**raw, **changes}.items() if value is not ...}).encode()


@given(st.text(min_size=1, max_size=40).filter(lambda t: t.encode("utf-8", "ignore").decode() == t), st.integers())
def test_what_is_sealed_opens_the_same(node_id: str, step: int) -> None:
    envelope = sealed(a_step(step, node_id))
    assert open_envelope(envelope.to_bytes()) == envelope


def test_the_id_follows_from_cause_type_key_and_ordinal() -> None:
    assert sealed(a_step(1)).id == sealed(a_step(2)).id, "the same cause handled again gives the same id"
    ids = {
        sealed(a_step()).id,
        sealed(a_step(), cause_id="other").id,
        sealed(a_step(), ordinal=1).id,
        sealed(a_step(node_id="node-1")).id,
        sealed(AgentLeft(node_id="node-0", instance_id="i", job_id="job", reason="", left_at=AT)).id,
    }
    assert len(ids) == 5


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4), st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_parts_of_an_id_do_not_run_into_each_other(one: list[str], other: list[str]) -> None:
    def encodable(parts: list[str]) -> list[str]:
        return [part.encode("utf-8", "replace").decode() for part in parts]

    one, other = encodable(one), encodable(other)
    assert (derived_id("c", "t", *one) == derived_id("c", "t", *other)) == (one == other)


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[]", "whole"),
        (b"null", "whole"),
        (b"{}", "type|specversion"),
        (b'{"type": 7, "specversion": "1.0"}', "at type"),
        (b"[" * 100_000, "JSON"),
        (with_changes(specversion="2.0"), "specversion '2.0'"),
        (with_changes(type="evt.agent.invented.v1"), "not registered"),
        (with_changes(type="evt.agent.step_reported.v2"), "not registered"),
        (with_changes(id=""), "at id"),
        (with_changes(id=...), "at id"),
        (with_changes(time="yesterday"), "at time"),
        (with_changes(time="2030-01-01T00:00:00"), "at time"),
        (with_changes(data=...), "at data"),
        (with_changes(data={}), "at data.node_id"),
        (with_changes(data={**json.loads(with_changes())["data"], "topology_version": 0}), "topology_version"),
        (with_changes(data={**json.loads(with_changes())["data"], "step": "many"}), "data.step"),
        (with_changes(subject="node-1"), "not the payload's node_id"),
        (b'"' + b"x" * ENVELOPE_BYTES_MAX + b'"', "over the limit"),
    ],
)
def test_bad_input_is_one_error_that_says_where(raw: bytes, complaint: str) -> None:
    with pytest.raises(EnvelopeError, match=complaint):
        open_envelope(raw)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_envelope_error(raw: bytes) -> None:
    with pytest.raises(EnvelopeError):
        open_envelope(raw)


def test_unknown_fields_are_ignored_so_that_an_addition_keeps_its_version() -> None:
    raw = json.loads(with_changes())
    raw["data"]["added_later"] = 1
    raw["extension"] = "x"
    assert open_envelope(json.dumps(raw).encode()) == sealed(a_step())


def test_an_open_enum_reads_an_unknown_member_as_other() -> None:
    signal = SignalObserved(
        node_id="n", component=Component.GPU, check="x", health=Health.BAD, source="nvml", observed_at=AT
    )
    raw = json.loads(sealed(signal).to_bytes())
    raw["data"]["component"] = "quantum"
    assert open_envelope(json.dumps(raw).encode()).data.component is Component.OTHER
    raw["data"]["health"] = "splendid"
    with pytest.raises(EnvelopeError, match=r"data\.health"):
        open_envelope(json.dumps(raw).encode())


def test_an_envelope_that_is_too_large_is_refused_before_it_leaves() -> None:
    payload = AgentLeft.model_construct(
        node_id="n", instance_id="i", job_id="j", reason="x" * ENVELOPE_BYTES_MAX, left_at=AT
    )
    with pytest.raises(EnvelopeError, match="over the limit"):
        sealed(payload).to_bytes()
