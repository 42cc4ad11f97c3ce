"""What becomes of a message whose handler failed."""

import pytest

from fault_contracts.envelope import EnvelopeError, open_envelope
from fault_contracts.registry import Stream
from service_kit.delivery import (
    BACKOFF_S,
    BUS_TRIES_MAX,
    TRIES_MAX,
    GiveUp,
    TryAgain,
    dead_letter,
    decode,
    is_bug,
    judge_failure,
    message_id,
)
from service_kit.errors import (
    BusUnavailable,
    CompareAndSetLost,
    ContractViolation,
    IllegalTransition,
    PermanentError,
    StaleLeader,
    TransientError,
)
from service_kit.testing.messages import a_heartbeat, a_step, a_stop
from service_kit.testing.virtual_clock import EPOCH


@pytest.mark.parametrize(
    "failure", [TransientError("x"), CompareAndSetLost("x"), StaleLeader("x"), ValueError("a bug")]
)
def test_everything_but_the_permanent_is_tried_again_with_growing_waits_and_then_given_up(failure: Exception) -> None:
    verdicts = [judge_failure(failure, tries=tries) for tries in range(1, TRIES_MAX + 2)]
    assert verdicts[: TRIES_MAX - 1] == [TryAgain(wait_s=wait_s) for wait_s in BACKOFF_S]
    assert verdicts[TRIES_MAX - 1 :] == [GiveUp(error=type(failure).__name__, message=str(failure))] * 2


def test_a_bus_that_does_not_answer_is_waited_for_and_not_for_ever() -> None:
    """A stream without a leader for a minute must not cost the message."""
    verdicts = [judge_failure(BusUnavailable("x"), tries=tries) for tries in range(1, BUS_TRIES_MAX + 1)]
    waits = [verdict.wait_s for verdict in verdicts if isinstance(verdict, TryAgain)]
    assert waits[: len(BACKOFF_S)] == list(BACKOFF_S)
    assert 60 < sum(waits) < 600, "longer than an election, inside the streams' duplicate window"
    assert verdicts[-1] == GiveUp(error="BusUnavailable", message="x")


@pytest.mark.parametrize("failure", [PermanentError("x"), ContractViolation("x"), IllegalTransition("x")])
def test_the_permanent_is_given_up_at_once(failure: Exception) -> None:
    assert judge_failure(failure, tries=1) == GiveUp(error=type(failure).__name__, message="x")


def test_an_undecodable_message_is_the_peers_contract_violation() -> None:
    assert judge_failure(EnvelopeError("at data: no"), tries=1) == GiveUp(
        error="ContractViolation", message="at data: no"
    )


@pytest.mark.parametrize(("asked_s", "given_s"), [(0.0, 0.0), (2.5, 2.5), (-1.0, 0.0), (1e9, 30.0)])
def test_the_failures_own_hint_is_followed_within_limits(asked_s: float, given_s: float) -> None:
    assert judge_failure(TransientError("x", retry_after_s=asked_s), tries=1) == TryAgain(wait_s=given_s)


def test_only_undeclared_failures_are_bugs() -> None:
    assert is_bug(KeyError("x"))
    for failure in (TransientError("x"), PermanentError("x"), CompareAndSetLost("x"), EnvelopeError("x")):
        assert not is_bug(failure)


def test_a_message_decodes_on_its_own_subject_and_a_command_on_the_republished_one() -> None:
    step, stop = a_step(1, node_id="Node.1"), a_stop(1)
    assert decode(step.to_bytes(), str(step.channel("c1"))) == step
    republished = str(stop.channel("c1")).replace("phx.cmd.", "phx.go.")
    assert decode(stop.to_bytes(), republished) == stop


@pytest.mark.parametrize(
    "subject",
    [
        str(a_step(1, node_id="other").channel("c1")),
        str(a_heartbeat(1).channel("c1")),
        str(a_step(1).channel("c1")).replace("phx.evt.", "phx.go."),
        "phx.evt.agent",
        "",
    ],
)
def test_a_message_on_a_foreign_subject_is_refused(subject: str) -> None:
    with pytest.raises(EnvelopeError):
        decode(a_step(1).to_bytes(), subject)


def _letter(raw: bytes, sequence: int | None = 5, consumer: str = "reader", error: str = "PermanentError") -> bytes:
    return dead_letter(
        GiveUp(error=error, message="no"),
        raw,
        consumer=consumer,
        source="/test",
        subject="phx.evt.x",
        stream=Stream.AGENTS if sequence else "",
        stream_sequence=sequence,
        deliveries=3,
        now=EPOCH,
    ).to_bytes()


def test_a_dead_letter_keeps_the_start_of_any_body() -> None:
    for raw in (b"", b"\xff\x00\xfe" * 10_000, "ü".encode() * 8_000, b"x" * 2_000_000):
        letter = open_envelope(_letter(raw)).data
        assert letter.body_bytes == len(raw)
        assert len(letter.body) <= 8_192
        assert letter.body[:1] == raw[:2].decode(errors="replace")[:1]


def test_a_dead_letter_is_the_same_for_the_same_place_and_differs_otherwise() -> None:
    def id_of(*args: object, **more: object) -> str:
        return open_envelope(_letter(*args, **more)).id  # type: ignore[arg-type]

    assert id_of(b"x") == id_of(b"x", error="ValueError")
    elsewhere = {id_of(b"x"), id_of(b"x", sequence=6), id_of(b"x", consumer="other")}
    assert len(elsewhere | {id_of(b"x", None), id_of(b"y", None)}) == 5


def test_the_same_event_in_two_clusters_is_two_messages() -> None:
    assert message_id("a", a_step(1)) != message_id("b", a_step(1))
    assert message_id("a", a_step(1)) == message_id("a", a_step(1))
