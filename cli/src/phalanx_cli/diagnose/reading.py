"""One diagnosis from PATHs: read, judge, and say what was read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fault_attribution.engine import Diagnosis, Engine
from fault_attribution.finding import Finding, Role
from fault_attribution.loading.rule_files import load_rules
from phalanx_cli.diagnose.evidence_reader import Choice, EvidenceReader
from phalanx_cli.diagnose.reading_notes import ReadingNotes

WORLD_SIZE_MAX = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was concluded, and from what."""

    diagnosis: Diagnosis
    notes: ReadingNotes


def engine_of(overlays: list[Path]) -> Engine:
    """The engine with the shipped rules and a site's own over them.

    Raises:
        PolicyRefused, SignatureRefused: with file, line and reason.
    """
    return Engine(load_rules(overlays))


def diagnose_paths(
    engine: Engine, paths: list[str], choice: Choice, *, notes: ReadingNotes, world_size: int | None = None
) -> Reading:
    """Read and judge. `notes` is filled while reading goes on, so that an interrupted reading can still be told."""
    reader = EvidenceReader(engine.matcher, notes, choice)
    reader.read(paths)
    findings = reader.findings()
    if world_size is not None:
        findings.append(_world_size(world_size))
    return Reading(diagnosis=engine.conclude(findings), notes=notes)


def _world_size(size: int) -> Finding:
    return Finding(
        finding_id="told:world_size",
        kind="world_size",
        role=Role.CONTEXT,
        captures={"size": str(size), "world_size": str(size)},
        text=f"world size {size}, as told",
        rule_id="told",
    )
