"""A finding that follows from another one and stands where that one stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fault_attribution.finding import Finding, Role

RESTS_ON_MAX = 64
"""Ids that a derived finding names; more explain nothing to anybody."""


def following(
    base: Finding,
    kind: str,
    text: str,
    *,
    rule_id: str,
    role: Role = Role.CONTEXT,
    rests_on: Sequence[Finding] = (),
    **changes: Any,
) -> Finding:
    """The base as another kind, with the fields in `changes` replaced.

    It rests on `rests_on`, or on the base alone where nothing is given.
    """
    return replace(
        base,
        finding_id=f"{kind}:{base.finding_id}",
        kind=kind,
        role=role,
        text=text,
        rule_id=rule_id,
        because=tuple(each.finding_id for each in rests_on or (base,))[:RESTS_ON_MAX],
        **changes,
    )
