"""Findings that follow from other findings: who is missing, what came again, whether work went on.

A derivation is a function of all findings so far and yields more. It may use the order of lines within one stream, and
times only where minutes lie between; the result must not depend on how lines of different streams interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fault_attribution.derive.collectives import collectives
from fault_attribution.derive.exits import exits
from fault_attribution.derive.gpu_compare import gpu_compare
from fault_attribution.derive.gpu_history import gpu_history
from fault_attribution.derive.gpu_readings import gpu_readings
from fault_attribution.derive.host_capacity import capacity
from fault_attribution.derive.host_outage import outages
from fault_attribution.derive.host_sharing import sharing
from fault_attribution.derive.progress import progress
from fault_attribution.derive.rank_story import rank_story
from fault_attribution.derive.transports import transports
from fault_attribution.derive.user_gpu_memory import gpu_memory
from fault_attribution.derive.user_job import job_facts
from fault_attribution.derive.user_same_code import same_code
from fault_attribution.derive.victims import victims
from fault_attribution.finding import Finding

Derivation = Callable[[Sequence[Finding]], Iterator[Finding]]

DERIVATIONS: tuple[Derivation, ...] = (
    exits,
    gpu_readings,
    gpu_history,
    gpu_compare,
    capacity,
    outages,
    sharing,
    gpu_memory,
    job_facts,
    same_code,
    progress,
    collectives,
    rank_story,
    victims,
    transports,
)
"""In order: a later one may read what an earlier one found."""


def complete(findings: Iterable[Finding], derivations: Sequence[Derivation] = DERIVATIONS) -> tuple[Finding, ...]:
    """All findings with those that follow from them."""
    known = list(findings)
    for derivation in derivations:
        known += list(derivation(tuple(known)))
    return tuple(known)
