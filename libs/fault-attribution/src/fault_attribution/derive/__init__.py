"""Findings that follow from other findings: who is missing, what came again, whether work went on.

A derivation is a function of all findings so far and yields more. It may use the order of lines within one stream, and
times only where minutes lie between; the result must not depend on how lines of different streams interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from fault_attribution.derive import (
    collectives,
    exits,
    gpu_compare,
    gpu_history,
    gpu_readings,
    host_capacity,
    host_outage,
    host_sharing,
    progress,
    rank_story,
    transports,
    user_gpu_memory,
    user_job,
    user_same_code,
    victims,
)
from fault_attribution.derive.in_order import InOrder, in_order
from fault_attribution.finding import Finding


class Derivation(NamedTuple):
    """One derivation, and what it reads.

    Attributes:
        reads: kinds of findings without any of which it yields nothing: then it is not run. None: it reads all.
        prefixes: begins of further such kinds.
        ordered: it wants the findings in order, and is given them so.
    """

    derive: Callable[[Sequence[Finding]], Iterator[Finding]]
    reads: frozenset[str] | None = None
    prefixes: tuple[str, ...] = ()
    ordered: bool = False

    def concerns(self, kinds: AbstractSet[str]) -> bool:
        """Whether it may yield anything where these kinds were found."""
        if self.reads is None or not self.reads.isdisjoint(kinds):
            return True
        return bool(self.prefixes) and any(kind.startswith(self.prefixes) for kind in kinds)


DERIVATIONS: tuple[Derivation, ...] = (
    Derivation(exits.exits, exits.READS),
    Derivation(gpu_readings.gpu_readings, gpu_readings.READS),
    Derivation(gpu_history.gpu_history, gpu_history.READS, gpu_history.READS_PREFIXES),
    Derivation(gpu_compare.gpu_compare, gpu_compare.READS),
    Derivation(host_capacity.capacity, host_capacity.READS),
    Derivation(host_outage.outages, host_outage.READS),
    Derivation(host_sharing.sharing, host_sharing.READS),
    Derivation(user_gpu_memory.gpu_memory, user_gpu_memory.READS),
    Derivation(user_job.job_facts, user_job.READS),
    Derivation(user_same_code.same_code),
    Derivation(progress.progress, ordered=True),
    Derivation(collectives.collectives, collectives.READS, ordered=True),
    Derivation(rank_story.rank_story, rank_story.READS, ordered=True),
    Derivation(victims.victims, victims.READS, ordered=True),
    Derivation(transports.transports, transports.READS, ordered=True),
)
"""In order: a later one may read what an earlier one found."""


def complete(findings: Iterable[Finding], derivations: Sequence[Derivation] = DERIVATIONS) -> tuple[Finding, ...]:
    """All findings with those that follow from them."""
    known = tuple(findings)
    kinds = {each.kind for each in known}
    sorted_: InOrder | None = None
    for derivation in derivations:
        if not derivation.concerns(kinds):
            continue
        if derivation.ordered and sorted_ is None:
            sorted_ = in_order(known)
        found = tuple(derivation.derive(sorted_ if derivation.ordered and sorted_ is not None else known))
        if found:
            known += found
            kinds.update(each.kind for each in found)
            sorted_ = None
    return known
