"""Evidence to verdicts with the shipped rules. Nothing here can see a truth."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from attribution_bench.healthy import Template, healthy_files
from attribution_bench.incidents import Event, as_lines, evidence_files, read_evidence
from attribution_bench.scoring import Verdict
from attribution_bench.speed import PHALANX, SPOKE
from attribution_bench.variants import Variant
from fault_attribution.engine import Engine
from fault_attribution.evidence_line import EvidenceLine, Source


def all_evidence(folder: Path) -> dict[str, tuple[Event, ...]]:
    """The evidence of every incident of a folder.

    Raises:
        IncidentsRefused: when one is none.
    """
    return {name: read_evidence(path) for name, path in evidence_files(folder).items()}


def judged(engine: Engine, events: Sequence[Event]) -> Verdict:
    """What the engine says of some evidence. It is not told the incident's name."""
    said = engine.diagnose(as_lines(events, "evidence")).judgement
    places = (("node", said.culprit.node_id), ("rank", said.culprit.rank), ("gpu", said.culprit.gpu_uuid))
    return Verdict(
        attribution=str(said.attribution),
        cause=said.cause,
        action=str(said.action),
        confidence=said.confidence,
        culprit=", ".join(f"{name} {value}" for name, value in places if value is not None),
    )


def judged_all(engine: Engine, evidence: Mapping[str, Sequence[Event]]) -> dict[str, Verdict]:
    """Every incident as it is."""
    return {name: judged(engine, events) for name, events in evidence.items()}


def unlike_diagnose(folder: Path, verdicts: Mapping[str, Verdict]) -> list[str]:
    """Incidents of which `phalanx diagnose` says something else than the engine called here, with what it says.

    It gets copies of the evidence alone, in a folder of their own.

    Raises:
        RuntimeError: when it fails.
    """
    with tempfile.TemporaryDirectory() as place:
        copies = {name: Path(place) / f"{name}.yaml" for name in verdicts}
        for name, path in evidence_files(folder).items():
            if name in copies:
                shutil.copyfile(path, copies[name])
        command = [str(PHALANX), "diagnose", "--each", "--format", "json", *(str(path) for path in copies.values())]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode not in SPOKE:
        raise RuntimeError(f"phalanx diagnose ended with {done.returncode}: {done.stderr[-400:]}")
    said = {Path(row["path"]).stem: row for row in map(json.loads, done.stdout.splitlines())}
    return [
        f"{name}: {verdict.attribution} {verdict.action}; diagnose: {row.get('attribution')} {row.get('action')}"
        for name, verdict in verdicts.items()
        if ((row := said.get(name, {})).get("attribution"), row.get("action")) != (verdict.attribution, verdict.action)
    ]


def judged_varied(
    engine: Engine, evidence: Mapping[str, Sequence[Event]], variant: Variant, seed: int
) -> dict[str, Verdict]:
    """Every incident in another form; the seed and the incident decide which."""
    return {name: judged(engine, variant(events, Random(f"{seed} {name}"))) for name, events in evidence.items()}


def alarms(engine: Engine, templates: Sequence[Template], count: int, seed: int) -> list[str]:
    """The healthy files of which something is said that is not silence, with what and why."""
    out = []
    for name, template, lines in healthy_files(templates, count, seed):
        source = Source.UNKNOWN if template.source == "worker" else Source(template.source)
        said = engine.diagnose(
            [EvidenceLine(text=line, source=source, stream=name, number=at) for at, line in enumerate(lines, start=1)]
        ).judgement
        if said.attribution != "unknown" or said.action != "wait_or_ignore":
            because = said.best.anchor.text if said.best else "a finding that no rule explains"
            out.append(f"{name}: {said.attribution} {said.cause} {said.action} {said.confidence}: {because}")
    return out
