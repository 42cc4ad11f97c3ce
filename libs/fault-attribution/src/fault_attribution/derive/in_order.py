"""Findings in their stable order, sorted once for all derivations that want them so."""

from __future__ import annotations

from collections.abc import Sequence

from fault_attribution.finding import Finding


class InOrder(tuple[Finding, ...]):
    """Findings in the order of their place: what is derived from them does not depend on how streams interleave."""

    __slots__ = ()


def in_order(findings: Sequence[Finding]) -> InOrder:
    """The findings in order; the same object when they are."""
    if isinstance(findings, InOrder):
        return findings
    return InOrder(sorted(findings, key=lambda each: each.place))
