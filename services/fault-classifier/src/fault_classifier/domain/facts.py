"""All that is known of a generation, as findings for the engine: its deaths, faults, losses, lines and surroundings.

Of the deaths of a node only the first that is nobody else's stands for itself: its later ones may be consequences.
The result is a function of the set of evidence; arrival order plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role
from fault_classifier.domain.device_facts import device_facts, kinds_of_check
from fault_classifier.domain.evidence import Exit, Generation, JobEvidence, Surrounding
from fault_classifier.domain.exit_facts import exit_facts, exit_finding
from fault_classifier.domain.fact_policy import FactPolicy
from fault_classifier.domain.gang_facts import facts_without_a_cause, lost_node_fact, note_facts, victim_fact
from fault_classifier.domain.live_facts import live_facts
from fault_classifier.domain.log_row import LogRow
from fault_classifier.domain.victim import victim_reason

_ROLES = {str(each): each for each in Role}
_SOURCES = {"stdout": Source.WORKER_STDOUT, "stderr": Source.WORKER_STDERR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Findings of a generation.

    Attributes:
        stands: something is there that is nobody else's consequence.
        victims: deaths that only follow, in stable order.
    """

    by_id: dict[str, Finding]
    stands: bool
    victims: tuple[Exit, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In a stable order."""
        return tuple(self.by_id.values())


def facts_of(generation: Generation, job: JobEvidence, policy: FactPolicy) -> Facts:
    """Everything, in a stable order."""
    version = generation.topology_version
    victims = tuple(sorted((each for each in generation.exits if victim_reason(each)), key=_place))
    found: list[Finding] = []
    first = first_of_each_node(generation)
    for death in first:
        found += exit_facts(death, job, version, policy)
    for faulted in generation.faulted:
        found += live_facts(faulted, job, version, policy)
    found += [lost_node_fact(lost) for lost in generation.lost]
    for device in generation.devices:
        found += device_facts(device)
    stands = bool(found)
    found += [victim_fact(each) for each in victims]
    found += [fact for note in generation.notes for fact in note_facts(note)]
    found += [_status(each) for each in generation.exits]
    found += [log_fact(row) for row in generation.rows]
    found += [fact for each in generation.surroundings for fact in _surrounding(each)]
    if not stands:
        found += facts_without_a_cause(generation, victims)
    return Facts(by_id={each.finding_id: each for each in found}, stands=stands, victims=victims)


def first_of_each_node(generation: Generation) -> list[Exit]:
    """Per node the first death that is nobody else's."""
    first: dict[str, Exit] = {}
    for each in sorted(generation.exits, key=_place):
        if victim_reason(each) is None:
            first.setdefault(each.node_id, each)
    return list(first.values())


def log_fact(row: LogRow) -> Finding:
    """What a signature found in a rank's output."""
    return Finding(
        finding_id=row.evidence_id,
        kind=row.kind,
        role=_ROLES.get(row.role, Role.CONTEXT),
        source=_SOURCES.get(row.stream, Source.UNKNOWN),
        node=row.node_id,
        rank=row.rank,
        device=row.device,
        process=row.process,
        captures=row.captures,
        text=row.text,
        rule_id=row.signature_id,
        stream=f"{row.node_id}/{row.rank}/{row.stream}",
        number=row.ordinal,
        count=row.count,
        because=(row.evidence_id,),
    )


def _status(exit_: Exit) -> Finding:
    """How it ended, in the words that logs are read into: what everybody's exit means is derived from these."""
    status = exit_.status
    captures = {
        name: str(value) for name, value in (("code", status.exit_code), ("signal", status.signal)) if value is not None
    }
    return exit_finding(exit_, "exit_status", f"rank {exit_.rank} ended", captures, role=Role.CONTEXT)


def _surrounding(each: Surrounding) -> Iterator[Finding]:
    for kind in kinds_of_check(each.kind, each.xid, each.sxid):
        yield Finding(
            finding_id=f"{kind}:{each.evidence_id}",
            kind=kind,
            role=Role.CONTEXT,
            node=each.node_id,
            device=each.device,
            captures=each.captures,
            text=each.sentence,
            rule_id=each.rule_id or "live.surroundings",
            count=each.count,
            because=(each.evidence_id,),
        )


def _place(exit_: Exit) -> tuple[str, int, int, str]:
    return (exit_.node_id, exit_.ordinal, exit_.rank, exit_.evidence_id)
