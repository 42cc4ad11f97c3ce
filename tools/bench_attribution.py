"""Scores the engine on labelled incidents: `make bench-attribution`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attribution_bench.incidents import Event, IncidentsRefused, as_lines, evidence_files, read_evidence, read_truths
from attribution_bench.report import as_data, confusion_lines, miss_lines, split_lines
from attribution_bench.scoring import Outcome, Verdict, not_reached, splits

from fault_attribution.engine import Engine
from fault_attribution.loading.rule_files import load_rules

DATA = Path(__file__).parents[1] / "tests" / "data"
NOT_REACHED, BAD_INPUT = 1, 2


def judged(engine: Engine, events: Sequence[Event], name: str) -> Verdict:
    """What the engine says of some evidence."""
    said = engine.diagnose(as_lines(events, name)).judgement
    culprit = [
        f"{key} {value}"
        for key, value in (("node", said.culprit.node_id), ("rank", said.culprit.rank))
        if value is not None
    ]
    return Verdict(
        attribution=str(said.attribution),
        cause=said.cause,
        action=str(said.action),
        confidence=said.confidence,
        culprit=", ".join(culprit),
    )


def with_truths(verdicts: Mapping[str, Verdict], folder: Path) -> list[Outcome]:
    """Verdicts that were all given before, with what is true.

    Raises:
        IncidentsRefused: when one has no truth.
    """
    truths = read_truths(folder)
    missing = sorted(verdicts.keys() - truths.keys())
    if missing:
        raise IncidentsRefused(f"{folder}: no truth for {', '.join(missing[:5])}")
    return [Outcome(truth=truths[name], verdict=verdict) for name, verdict in verdicts.items()]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Score the attribution engine on labelled incidents.",
        epilog="Exit code 1: a promised figure is not reached; 2: bad input.",
    )
    parser.add_argument("folder", nargs="?", type=Path, help="the same as --incidents")
    parser.add_argument(
        "--incidents",
        type=Path,
        default=DATA / "incidents",
        help="folder of iNNN.yaml and truth.tsv (default: %(default)s)",
    )
    parser.add_argument("--misses", action="store_true", help="list what was judged wrong, with what was said")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and verdicts there; - is stdout")
    return parser.parse_args()


def main() -> int:
    """Score, print, and say with the exit code whether the promised figures are reached."""
    asked = parsed()
    folder: Path = asked.folder or asked.incidents
    engine = Engine(load_rules())
    try:
        verdicts = {name: judged(engine, read_evidence(path), name) for name, path in evidence_files(folder).items()}
        outcomes = with_truths(verdicts, folder)
    except IncidentsRefused as error:
        print(f"bench-attribution: {error}", file=sys.stderr)
        return BAD_INPUT
    found = splits(outcomes)
    print(f"{len(outcomes)} incidents of {folder}", *confusion_lines(found["all"]), "", *split_lines(found), sep="\n")
    if asked.misses:
        print("", "wrong:", *miss_lines(outcomes), sep="\n")
    if asked.json:
        text = json.dumps(as_data(found, outcomes), indent=1)
        if str(asked.json) == "-":
            print(text)
        else:
            asked.json.write_text(text + "\n", encoding="utf-8")
    failed = not_reached(found["all"])
    print("", *(failed or ["every promised figure is reached"]), sep="\n")
    return NOT_REACHED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
