"""docs/asyncapi.yaml is what the registry says, and it is whole: every reference leads somewhere, every sample fits."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from fault_contracts.asks import ASKS
from fault_contracts.registry import MESSAGES, STREAMS
from fault_contracts.subjects import Kind

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((Path(__file__).parent / "samples").glob("*/v*.json"))
URI = "urn:asyncapi"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "asyncapi.yaml").read_text(encoding="utf-8"))
    return loaded


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in _references(value)]
    if isinstance(node, list):
        return [ref for value in node for ref in _references(value)]
    return []


def _resolve(document: dict[str, Any], reference: str) -> Any:
    assert reference.startswith("#/")
    node: Any = document
    for token in reference[2:].split("/"):
        node = node[token]
    return node


def test_the_file_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import write_asyncapi  # type: ignore[import-not-found]

    try:
        assert write_asyncapi.TARGET.read_text(encoding="utf-8") == write_asyncapi.asyncapi_text(), (
            "run: make contracts"
        )
    finally:
        sys.modules.pop("write_asyncapi")


def test_it_is_an_asyncapi_3_document_with_every_message(document: dict[str, Any]) -> None:
    assert document["asyncapi"] == "3.0.0"
    assert document["info"].keys() >= {"title", "version"}
    asked = {f"ask.{ask.what}.{part}.v1" for ask in ASKS for part in ("asked", "answered")}
    assert set(document["components"]["messages"]) == {spec.type for spec in MESSAGES} | asked
    assert set(document["x-jetstream"]["streams"]) == {str(spec.name) for spec in STREAMS}


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = _references(document)
    assert len(references) > 100
    for reference in references:
        assert _resolve(document, reference), reference


def test_channels_address_their_subjects_and_commands_are_heard_where_they_are_republished(
    document: dict[str, Any],
) -> None:
    for spec in MESSAGES:
        channel = document["channels"][spec.type]
        filled = channel["address"].format(cluster="c1", key="k1")
        assert filled == str(spec.subject("c1", "k1"))
        assert set(channel["parameters"]) == {"cluster", "key"}
        assert channel.get("x-jetstream", {}).get("stream") == (spec.stream and str(spec.stream))
    for name, operation in document["operations"].items():
        channel_name = operation["channel"]["$ref"].removeprefix("#/channels/")
        assert operation["action"] in ("send", "receive")
        assert operation["messages"][0]["$ref"].startswith(f"#/channels/{channel_name}/messages/")
        if operation["action"] == "receive":
            assert not channel_name.startswith(f"{Kind.CMD}."), f"{name} would hear what the stream refused"


def test_every_question_is_an_operation_with_a_reply_on_the_subject_that_the_bus_uses(document: dict[str, Any]) -> None:
    assert {ask.what for ask in ASKS} == {
        *("ping", "admission", "planner", "hardware", "hardware_change", "host_health", "tend"),
    }
    for ask in ASKS:
        asked = f"ask.{ask.what}.asked.v1"
        address = document["channels"][asked]["address"].format(cluster="c1", key="k1")
        assert address == ask.pattern("c1", "k1") == f"phx.{asked}.c1.k1"
        for who, action in (*((asker, "send") for asker in ask.askers), (ask.answerer, "receive")):
            operation = document["operations"][f"{who}/{action}/{asked}"]
            assert operation["action"] == action
            reply = _resolve(document, operation["reply"]["channel"]["$ref"])
            assert reply["address"] is None, "the asker names its own inbox"
            assert list(reply["messages"]) == [f"ask.{ask.what}.answered.v1"]


def test_every_sender_sends_and_every_reader_receives(document: dict[str, Any]) -> None:
    for spec in MESSAGES:
        for sender in (spec.sender, *spec.also_senders):
            assert f"{sender}/send/{spec.type}" in document["operations"]
        for reader in spec.readers:
            assert f"{reader}/receive/{spec.type}" in document["operations"]


def test_payload_schemas_are_schemas(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema.get("title") == name or name == "Envelope" or "enum" in schema or schema.get("type"), name


def _validator(document: dict[str, Any], type_: str) -> Draft202012Validator:
    registry: Registry[Any] = Registry().with_resource(URI, Resource(contents=document, specification=DRAFT202012))
    return Draft202012Validator({"$ref": f"{URI}#/components/messages/{type_}/payload"}, registry=registry)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_every_sample_fits_its_published_schema_and_a_broken_one_does_not(document: dict[str, Any], path: Path) -> None:
    sample = json.loads(path.read_bytes())
    validator = _validator(document, f"{path.parent.name}.{path.stem}")
    assert list(validator.iter_errors(sample)) == []
    for name in ("data", "id", "subject"):
        assert list(validator.iter_errors({key: value for key, value in sample.items() if key != name})), name
    assert list(validator.iter_errors({**sample, "data": {}})), "an empty payload must not fit"
