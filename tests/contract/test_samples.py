"""Every message version ever published still decodes, field by field. A sample is never edited: a change is a v2."""

import json
from pathlib import Path
from typing import Any

import pytest

from fault_contracts.envelope import open_envelope
from fault_contracts.registry import MESSAGES, spec_of_type

SAMPLES = Path(__file__).parent / "samples"
FILES = sorted(SAMPLES.glob("*/v*.json"))


def test_every_registered_message_has_a_sample_of_its_version() -> None:
    there = {f"{path.parent.name}.{path.stem}" for path in FILES}
    assert {spec.type for spec in MESSAGES} <= there


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_sample_decodes_and_none_of_its_fields_is_lost(path: Path) -> None:
    raw = path.read_bytes()
    envelope = open_envelope(raw)
    assert envelope.type == f"{path.parent.name}.{path.stem}"
    assert spec_of_type(envelope.type) is not None
    assert _lost(json.loads(raw), json.loads(envelope.model_dump_json()), "") == []
    assert open_envelope(envelope.to_bytes()) == envelope


def _lost(sample: Any, decoded: Any, place: str) -> list[str]:
    """Places of the sample that the decoded message does not have, or has otherwise."""
    if isinstance(sample, dict):
        if not isinstance(decoded, dict):
            return [place]
        found = []
        for name, value in sample.items():
            if name in decoded:
                found += _lost(value, decoded[name], f"{place}.{name}")
            else:
                found.append(f"{place}.{name}")
        return found
    if isinstance(sample, list):
        if not isinstance(decoded, list) or len(sample) != len(decoded):
            return [place]
        return [p for n, pair in enumerate(zip(sample, decoded, strict=True)) for p in _lost(*pair, f"{place}[{n}]")]
    return [] if sample == decoded else [f"{place}: {sample!r} became {decoded!r}"]


def test_the_comparison_would_notice_a_renamed_field() -> None:
    assert _lost({"a": {"b": 1}}, {"a": {"c": 1}}, "") == [".a.b"]
    assert _lost({"a": [1, 2]}, {"a": [1, 3]}, "") == [".a[1]: 2 became 3"]
