"""Signatures in one line each, for tests of the matcher."""

from typing import Any

from fault_attribution.finding import Role
from fault_attribution.signature import Signature


def signature(name: str, pattern: str, **fields: Any) -> Signature:
    base = {"kind": name.replace(".", "_"), "role": Role.SYMPTOM, "meaning": "test", "origin": "test"}
    return Signature(signature_id=name, pattern=pattern, **{**base, **fields})
