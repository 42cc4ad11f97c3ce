"""What a hostile or broken sender can put on the bus: each message, with each of its values made absurd."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fault_contracts.envelope import EnvelopeError, open_envelope
from fault_contracts.registry import spec_of_type
from service_kit.delivery import GiveUp, dead_letter, decode, judge_failure
from service_kit.errors import ContractViolation
from service_kit.testing.virtual_clock import EPOCH

FILES = sorted((Path(__file__).parent / "samples").glob("*/v*.json"))
NAMES = [f"{path.parent.name}.{path.stem}" for path in FILES]
ABSURD = (
    "NaN", "Infinity", "-1e999", "1e400", "9" * 5_000, "-1", '"\\ud800"', '"\\u0000"', '"' + "A" * 100_000 + '"',
    "null", "[" * 2_000 + "]" * 2_000, '{"a":' * 2_000 + "1" + "}" * 2_000, '{"__proto__": {}}', "true",
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from places(inner, (*path, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def with_absurd(message: dict[str, Any], path: tuple[Any, ...], absurd: str) -> bytes:
    copy = json.loads(json.dumps(message))
    holder = copy
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = "@here@"
    return json.dumps(copy).replace('"@here@"', absurd).encode()


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_an_absurd_value_is_an_envelope_error_or_is_read_and_written_again(path: Path) -> None:
    message = json.loads(path.read_bytes())
    for number, place in enumerate(places(message)):
        # Each place gets some of them, and each of them comes at many places.
        for absurd in (ABSURD[(number + step) % len(ABSURD)] for step in (0, 5, 9)):
            raw = with_absurd(message, place, absurd)
            try:
                envelope = open_envelope(raw)
            except EnvelopeError as error:
                verdict = judge_failure(error, tries=1)
                assert isinstance(verdict, GiveUp), "never tried again"
                letter = dead_letter(
                    verdict, raw, consumer="c", source="/t/1", subject="s", stream="S", stream_sequence=7, deliveries=1,
                    now=EPOCH,
                )  # fmt: skip
                assert len(letter.to_bytes()) < 100_000, "a letter about any message is bounded"
            else:
                assert open_envelope(envelope.to_bytes()) == envelope


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_who_speaks_for_another_is_refused(path: Path) -> None:
    """The server lets a node publish on its own key only; the message must then be about that key."""
    raw = path.read_bytes()
    envelope = open_envelope(raw)
    spec = spec_of_type(envelope.type)
    assert spec is not None
    own = str(envelope.channel("a-cluster"))
    assert decode(raw, own).id == envelope.id
    with pytest.raises(EnvelopeError, match="came on"):
        decode(raw, str(spec.subject("a-cluster", "rogue")))
    forged = json.loads(raw)
    forged["subject"] = "rogue"
    with pytest.raises(EnvelopeError, match="is not the payload's"):
        decode(json.dumps(forged).encode(), str(spec.subject("a-cluster", "rogue")))
    other = next(each for each in FILES if each != path)
    with pytest.raises(EnvelopeError):
        decode(other.read_bytes(), own)


def test_it_is_the_senders_fault() -> None:
    found = judge_failure(EnvelopeError("at data: no"), tries=1)
    assert found == GiveUp(error=ContractViolation.__name__, message="at data: no")
