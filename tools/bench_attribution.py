"""Scores the engine on labelled incidents: `make bench-attribution`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import yaml

from fault_attribution.engine import Engine
from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.loading.rule_files import load_rules


def read_incident(path: Path) -> list[EvidenceLine]:
    """The lines of an incident file."""
    rows = yaml.safe_load(path.read_text())["evidence"]
    return [
        EvidenceLine(
            text=str(row["line"]), source=Source(row["source"]), node=row.get("node", ""), rank=row.get("rank"),
            at_s=row.get("offset_s"), stream=path.name, number=number,
        )
        for number, row in enumerate(rows, start=1)
    ]  # fmt: skip


def main() -> int:
    """Print what is wrong, and the sums."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/incidents")
    engine = Engine(load_rules())
    header, *rows = [line.split("\t") for line in (folder / "truth.tsv").read_text().splitlines()]
    sums: Counter[str] = Counter()
    for row in rows:
        truth = dict(zip(header, row, strict=False))
        judged = engine.diagnose(read_incident(folder / f"{truth['incident']}.yaml")).judgement
        right = {truth["attribution"], *filter(None, truth["also_attribution"].split("|"))}
        actions = {truth["action"], *filter(None, truth["also_action"].split("|"))}
        whose = judged.attribution in right or truth["benign"] == "true"
        action = judged.action in actions
        sums.update(n=1, attribution=whose, action=action)
        if not (whose and action):
            print(
                f"{truth['incident']} want {'|'.join(sorted(right))} {truth['cause']} {'|'.join(sorted(actions))}"
                f"; got {judged.attribution} {judged.cause} {judged.action} {judged.confidence}"
            )
    print(dict(sums))
    return 0


if __name__ == "__main__":
    sys.exit(main())
