"""Records of nodes under remediation, and of the breaker, as JSON with a version, as gang_codec does it."""

from __future__ import annotations

from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from recovery_planner.adapters.gang_codec import VERSION, decode_effect, encode_effect, open_record
from recovery_planner.domain.breaker import Breaker
from recovery_planner.domain.node_life import NodeLife
from service_kit.errors import ContractViolation

_LIFE = TypeAdapter(NodeLife)
_BREAKER = TypeAdapter(Breaker)


def encode_life(life: NodeLife) -> bytes:
    """The record as bytes."""
    pending = b",".join(encode_effect(effect) for effect in life.pending)
    return b'{"v":%d,"life":%b,"pending":[%b]}' % (VERSION, _LIFE.dump_json(replace(life, pending=())), pending)


def decode_life(raw: bytes) -> NodeLife:
    """Inverse of `encode_life`.

    Raises:
        ContractViolation: damaged, or of a newer version.
    """
    record = open_record(raw, "node life")
    try:
        life = _LIFE.validate_python(record["life"])
        return replace(life, pending=tuple(decode_effect(effect) for effect in record["pending"]))
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise ContractViolation(f"record of a node's life is damaged: {str(error)[:500]}") from error


def encode_breaker(breaker: Breaker) -> bytes:
    """The breaker's record as bytes."""
    return b'{"v":%d,"breaker":%b}' % (VERSION, _BREAKER.dump_json(breaker))


def decode_breaker(raw: bytes) -> Breaker:
    """Inverse of `encode_breaker`.

    Raises:
        ContractViolation: damaged, or of a newer version.
    """
    record = open_record(raw, "breaker")
    try:
        return _BREAKER.validate_python(record["breaker"])
    except (ValidationError, KeyError, TypeError) as error:
        raise ContractViolation(f"record of the breaker is damaged: {str(error)[:500]}") from error
