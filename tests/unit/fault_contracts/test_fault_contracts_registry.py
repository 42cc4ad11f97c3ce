"""What must hold for every registered message and stream."""

import pytest

from fault_contracts.registry import MESSAGES, STREAMS, Bucket, MessageSpec, Stream, spec_of, spec_of_type, stream_spec
from fault_contracts.subjects import Kind

SERVICES = {"node-agent", "health-ingest", "fault-classifier", "recovery-planner", "console", "cli", "any"}


def _covers(pattern: str, subject: str) -> bool:
    assert pattern.endswith(".>")
    return subject.startswith(pattern[:-1])


@pytest.mark.parametrize("spec", MESSAGES, ids=lambda spec: spec.type)
class TestMessage:
    def test_its_key_is_a_required_or_fixed_text_field(self, spec: MessageSpec) -> None:
        field = spec.model.model_fields[spec.key]
        assert field.is_required() or isinstance(field.default, str)

    def test_exactly_its_stream_keeps_its_subject(self, spec: MessageSpec) -> None:
        subject = str(spec.subject("c", "k"))
        keeping = [s.name for s in STREAMS for pattern in s.subjects if _covers(pattern, subject)]
        assert keeping == ([spec.stream] if spec.stream else [])

    def test_it_is_found_by_model_and_by_type(self, spec: MessageSpec) -> None:
        assert spec_of(spec.model) is spec
        assert spec_of_type(spec.type) is spec

    def test_sender_and_readers_exist_and_somebody_reads_it(self, spec: MessageSpec) -> None:
        assert {spec.sender, *spec.readers} <= SERVICES
        assert spec.readers

    def test_its_model_says_what_it_is_and_is_frozen(self, spec: MessageSpec) -> None:
        assert spec.model.__doc__
        assert spec.model.model_config["frozen"] is True


def test_commands_lie_in_the_republished_stream_and_carry_a_fence() -> None:
    control = stream_spec(Stream.CONTROL)
    assert control.republish == ("phx.cmd.>", "phx.go.>")
    assert control.atomic
    commands = [spec for spec in MESSAGES if spec.kind is Kind.CMD]
    assert commands
    for spec in commands:
        assert spec.stream is Stream.CONTROL
        # A machine has no generation: its orders are fenced by the boot and the agent's life that were meant.
        fence = {"fence", "job_id"} if spec.context == "gang" else {"boot_id", "instance_id"}
        assert fence | {"operation_id", "expires_at"} <= spec.model.model_fields.keys()


def test_the_epoch_lies_beside_the_commands_it_fences() -> None:
    spec = spec_of_type("evt.leader.epoch.v1")
    assert spec is not None
    assert spec.stream is Stream.CONTROL


def test_no_stream_keeps_what_another_keeps_and_none_keeps_what_is_republished() -> None:
    patterns = [pattern for stream in STREAMS for pattern in stream.subjects]
    for one in patterns:
        assert not any(other != one and _covers(other, one[:-1] + "x") for other in patterns)
        assert not _covers(one, "phx.go.x")


def test_the_duplicate_window_outlives_every_redelivery() -> None:
    for stream in STREAMS:
        assert stream.duplicate_window_s >= 5 * 30.0
        assert stream.duplicate_window_s < stream.age_s_max


def test_names_are_unique_and_an_unknown_type_is_none() -> None:
    assert {spec.name for spec in STREAMS} == set(Stream)
    assert len(set(Bucket)) == 7
    assert spec_of_type("evt.agent.invented.v1") is None
