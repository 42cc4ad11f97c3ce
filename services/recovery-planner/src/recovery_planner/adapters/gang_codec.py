"""The gang record as JSON, with a version: `{"v": 1, "gang": {...}, "pending": [...]}`.

`gang.table` is readable for agents that need the whole rank table: `{"topology_version", "rows": [{"node_rank",
"node_id", "address", "nproc"}]}`. Fields that have their default are left out: of 12,500 members that is half of the
bytes. A default is therefore part of the format, and a field whose default changes needs a new VERSION.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fault_contracts.registry import spec_of, spec_of_type
from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.gang import Effect, Gang
from service_kit.errors import ContractViolation

VERSION = 1

_GANG = TypeAdapter(Gang)
_HISTORY = TypeAdapter(CheckpointHistory)


def encode_gang(gang: Gang) -> bytes:
    """The record as bytes."""
    pending = b",".join(encode_effect(effect) for effect in gang.pending)
    body = _GANG.dump_json(replace(gang, pending=()), exclude_defaults=True)
    return b'{"v":%d,"gang":%b,"pending":[%b]}' % (VERSION, body, pending)


def decode_gang(raw: bytes) -> Gang:
    """Inverse of `encode_gang`.

    Raises:
        ContractViolation: damaged, or of a newer version.
    """
    record = open_record(raw, "gang")
    try:
        gang = _GANG.validate_python(record["gang"])
        return replace(gang, pending=tuple(decode_effect(effect) for effect in record["pending"]))
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise ContractViolation(f"gang record is damaged: {str(error)[:500]}") from error


def encode_history(history: CheckpointHistory) -> bytes:
    """Confirmed checkpoints as bytes."""
    return b'{"v":%d,"history":%b}' % (VERSION, _HISTORY.dump_json(history))


def decode_history(raw: bytes) -> CheckpointHistory:
    """Inverse of `encode_history`.

    Raises:
        ContractViolation: damaged, or of a newer version.
    """
    record = open_record(raw, "checkpoint")
    try:
        return _HISTORY.validate_python(record["history"])
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise ContractViolation(f"checkpoint record is damaged: {str(error)[:500]}") from error


def open_record(raw: bytes, what: str) -> Any:
    """The record as plain data, once its version is known.

    Raises:
        ContractViolation: damaged, or of a newer version.
    """
    try:
        record = json.loads(raw)
        version = record["v"]
    except (ValueError, KeyError, TypeError) as error:
        raise ContractViolation(f"{what} record is not JSON with a version: {error}") from error
    if version != VERSION:
        raise ContractViolation(
            f"{what} record has version {version}; this planner understands {VERSION}: run the planner that wrote it"
        )
    return record


def encode_effect(effect: Effect) -> bytes:
    """An unpublished effect as JSON."""
    head_fields = {"seq": effect.seq, "type": spec_of(type(effect.payload)).type, "cause_id": effect.cause_id}
    head = json.dumps(head_fields | ({"run": effect.run} if effect.run else {}))
    return head[:-1].encode() + b',"data":%b}' % effect.payload.model_dump_json().encode()


def decode_effect(record: Any) -> Effect:
    """Inverse of `encode_effect`.

    Raises:
        ValueError: of an unknown type, or damaged.
    """
    spec = spec_of_type(record["type"])
    if spec is None:
        raise ValueError(f"effect of unknown type {record['type']!r}")
    payload = spec.model.model_validate(record["data"])
    return Effect(seq=record["seq"], payload=payload, cause_id=record["cause_id"], run=record.get("run", ""))
