"""The registry as an AsyncAPI 3.0 document: what a stranger needs to read or write a message without our code.

The NATS binding of AsyncAPI (0.1.0) has no place for streams, so they stand under `x-jetstream`.
"""

from __future__ import annotations

import inspect
from typing import Any

from pydantic.json_schema import models_json_schema

from fault_contracts.asks import ASKS
from fault_contracts.asyncapi_asks import ask_channels, ask_messages, ask_operations
from fault_contracts.envelope import ENVELOPE_BYTES_MAX
from fault_contracts.registry import MESSAGES, STREAMS, Bucket, MessageSpec, StreamSpec
from fault_contracts.subjects import ROOT, Kind

ASYNCAPI_VERSION = "3.0.0"
_REF = "#/components/schemas/{model}"


def asyncapi_document() -> dict[str, Any]:
    """The whole document, ready to be written as YAML or JSON; the same for the same registry."""
    _, schemas = models_json_schema(
        [(spec.model, "validation") for spec in MESSAGES], ref_template=_REF, title="Payloads of Phalanx"
    )
    definitions: dict[str, Any] = schemas["$defs"]
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": {
            "title": "Phalanx",
            "version": "1",
            "description": "Messages of the fault detection, attribution and recovery services. Written from the "
            "registry (fault_contracts.registry) by `make contracts`; do not edit.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "nats": {
                "host": "127.0.0.1:4222",
                "protocol": "nats",
                "description": "nats-server 2.12 or newer with JetStream (NATS_URL).",
            }
        },
        "channels": {name: channel for spec in MESSAGES for name, channel in _channels(spec)}
        | {name: channel for ask in ASKS for name, channel in ask_channels(ask)},
        "operations": {name: operation for spec in MESSAGES for name, operation in _operations(spec)}
        | {name: operation for ask in ASKS for name, operation in ask_operations(ask)},
        "components": {
            "messages": {spec.type: _message(spec) for spec in MESSAGES}
            | {name: message for ask in ASKS for name, message in ask_messages(ask)},
            "schemas": {"Envelope": _envelope(), **dict(sorted(definitions.items()))},
            "parameters": {
                "cluster": {"description": "Name of the cluster, as one token (fault_contracts.subjects)."},
                "key": {"description": "The entity that the message is about, as one token: node_id or job_id."},
            },
        },
        "x-jetstream": {
            "streams": {str(spec.name): _stream(spec) for spec in STREAMS},
            "buckets": [str(bucket) for bucket in Bucket],
        },
    }


def _address(spec: MessageSpec, kind: Kind) -> str:
    return f"{ROOT}.{kind}.{spec.context}.{spec.name}.v{spec.version}.{{cluster}}.{{key}}"


def _channels(spec: MessageSpec) -> list[tuple[str, dict[str, Any]]]:
    """The channel a message is published on and, for a command, the one where agents hear it."""
    kept = "not stored: core NATS, at most once" if spec.stream is None else f"kept in stream {spec.stream}"
    channels = [(spec.type, _channel(spec, spec.kind, f"{_summary(spec)} Key: {spec.key}; {kept}."))]
    if spec.kind is Kind.CMD:
        heard = "The same command after the stream accepted it: listen here, never on the command's own subject."
        channels.append((spec.type.replace(Kind.CMD, Kind.GO, 1), _channel(spec, Kind.GO, heard)))
    return channels


def _channel(spec: MessageSpec, kind: Kind, description: str) -> dict[str, Any]:
    channel: dict[str, Any] = {
        "address": _address(spec, kind),
        "description": description,
        "messages": {spec.type: {"$ref": f"#/components/messages/{spec.type}"}},
        "parameters": {name: {"$ref": f"#/components/parameters/{name}"} for name in ("cluster", "key")},
    }
    if spec.stream is not None:
        channel["x-jetstream"] = {"stream": str(spec.stream), "republished": kind is Kind.GO}
    return channel


def _operations(spec: MessageSpec) -> list[tuple[str, dict[str, Any]]]:
    heard_on = spec.type.replace(Kind.CMD, Kind.GO, 1) if spec.kind is Kind.CMD else spec.type
    senders = (spec.sender, *spec.also_senders)
    operations = [(f"{sender}/send/{spec.type}", _operation("send", spec, spec.type)) for sender in senders]
    operations += [(f"{reader}/receive/{spec.type}", _operation("receive", spec, heard_on)) for reader in spec.readers]
    return operations


def _operation(action: str, spec: MessageSpec, channel: str) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{spec.type}"}],
    }


def _message(spec: MessageSpec) -> dict[str, Any]:
    return {
        "name": spec.type,
        "title": spec.model.__name__,
        "summary": _summary(spec),
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "properties": {
                "Nats-Msg-Id": {"type": "string", "description": "<cluster>/<id>: the stream drops a copy."},
                "Content-Type": {"const": "application/json"},
                "traceparent": {"type": "string", "description": "W3C trace context, where there is one."},
            },
        },
        "payload": {
            "allOf": [
                {"$ref": "#/components/schemas/Envelope"},
                {
                    "type": "object",
                    "properties": {
                        "type": {"const": spec.type},
                        "data": {"$ref": _REF.format(model=spec.model.__name__)},
                    },
                },
            ]
        },
    }


def _summary(spec: MessageSpec) -> str:
    return (inspect.getdoc(spec.model) or "").split("\n\n", 1)[0].replace("\n", " ")


def _envelope() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "title": "Envelope",
        "description": f"CloudEvents 1.0 in structured JSON, at most {ENVELOPE_BYTES_MAX} bytes.",
        "required": ["specversion", "id", "source", "type", "subject", "time", "data"],
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {"type": "string", "minLength": 1, "maxLength": 128, "description": "Derived from the cause."},
            "source": {"type": "string", "minLength": 1, "maxLength": 256},
            "type": text,
            "subject": {"type": "string", "description": "The entity; equals the payload's key field."},
            "time": {"type": "string", "format": "date-time"},
            "datacontenttype": {"const": "application/json"},
            "correlationid": {"type": "string", "description": "The incident, where there is one."},
            "causationid": {"type": "string", "description": "Id of the message that caused this one."},
            "data": {"type": "object"},
        },
    }


def _stream(spec: StreamSpec) -> dict[str, Any]:
    described: dict[str, Any] = {
        "subjects": list(spec.subjects),
        "age_s_max": spec.age_s_max,
        "bytes_max": spec.bytes_max,
        "duplicate_window_s": spec.duplicate_window_s,
        "atomic": spec.atomic,
    }
    if spec.republish is not None:
        described["republish"] = {"from": spec.republish[0], "to": spec.republish[1]}
    return described
