"""Scores the engine on labelled incidents, their variants and healthy logs, and times it: `make bench-attribution`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from attribution_bench import variants
from attribution_bench.healthy import FILES, healthy_lines, long_runs, read_templates
from attribution_bench.incidents import IncidentsRefused, read_truths
from attribution_bench.judging import alarms, all_evidence, judged_all, judged_varied, unlike_diagnose
from attribution_bench.report import (
    as_data,
    confusion_lines,
    miss_lines,
    speed_lines,
    split_lines,
    variant_lines,
)
from attribution_bench.scoring import Figures, Outcome, Targets, Verdict, figures, lost, not_reached, splits
from attribution_bench.speed import diagnosed, floors, write_log

from fault_attribution.engine import Engine
from fault_attribution.loading.rule_files import RuleSet, load_rules

DATA = Path(__file__).parents[1] / "tests" / "data"
PARTS = ("score", "variants", "healthy", "speed")
NOT_REACHED, BAD_INPUT = 1, 2
LINES_PER_S_MIN = 200_000
RSS_MIB_MAX = 512
"""Bounded memory, for any size of input."""
MIB = 1 << 20
HALVED = "half of the evidence"
"""What it costs is reported and fails nothing: an incident often has one decisive line, and a judge that gives the
same verdict without it is guessing. No node action on a user fault holds here too."""


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Score the attribution engine on labelled incidents, their variants and healthy logs, and time it.",
        epilog="Exit code 1: a promised figure is not reached; 2: bad input.",
    )
    parser.add_argument("folder", nargs="?", type=Path, help="score this folder of incidents, and nothing else")
    parser.add_argument(
        "--incidents",
        type=Path,
        default=DATA / "incidents",
        help="folder of iNNN.yaml and truth.tsv to score, vary and compare with (default: %(default)s)",
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave the other parts out")
    parser.add_argument("--misses", action="store_true", help="list what was judged wrong, with what was said")
    parser.add_argument("--seeds", type=int, default=5, help="how often each variant is made (default: %(default)s)")
    parser.add_argument("--stream-mib", type=int, default=1024, help="size of the long stream (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and verdicts there")
    return parser.parse_args()


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


def score(engine: Engine, folder: Path, *, misses: bool, diagnose: bool) -> tuple[dict[str, Figures], list[Outcome]]:
    """Score a folder and print it."""
    outcomes = with_truths(judged_all(engine, all_evidence(folder)), folder)
    found = splits(outcomes)
    unlike = unlike_diagnose(folder, {each.truth.incident: each.verdict for each in outcomes}) if diagnose else []
    print(f"{len(outcomes)} incidents of {folder}", *confusion_lines(found["all"]), "", *split_lines(found), sep="\n")
    if misses:
        print("", "wrong:", *miss_lines(outcomes), sep="\n")
    if diagnose:
        print(
            f"phalanx diagnose --each says the same of {len(outcomes) - len(unlike)} of {len(outcomes)}",
            *unlike,
            sep="\n",
        )
    print(flush=True)
    return found, outcomes


def vary(engine: Engine, folder: Path, base: Figures, seeds: int) -> tuple[list[str], dict[str, tuple[float, ...]]]:
    """Score a folder in other forms, print what is lost, and return what is too much."""
    noise = healthy_lines(read_templates(DATA / "healthy"), seed=1)
    named: dict[str, variants.Variant] = {
        "offsets off by up to 30 s": variants.jittered,
        "no offsets": variants.without_offsets,
        "shuffled within offset": variants.shuffled_within_offset,
        "streams interleaved": variants.interleaved,
        "names, pids, addresses": variants.renamed,
        "1,000 healthy lines": variants.with_noise(noise),
        HALVED: variants.halved,
    }
    evidence = all_evidence(folder)
    rows: dict[str, tuple[float, ...]] = {}
    failed = []
    for name, variant in named.items():
        runs = [figures(with_truths(judged_varied(engine, evidence, variant, seed), folder)) for seed in range(seeds)]
        f1, action = lost(base, runs)
        nodes = sum(each.nodes_on_user_faults for each in runs)
        rows[name] = (f1, action, nodes)
        if name != HALVED and max(f1, action) > Targets().lost_max:
            failed.append(f"{name}: {f1:.3f} of macro-F1, {action:.3f} of the action lost; 0.03 is promised")
        if nodes:
            failed.append(f"{name}: {nodes} node action(s) on user faults in {seeds} runs; none is promised")
    print(f"variants, medians over {seeds} seeds (what is lost)", *variant_lines(rows), sep="\n")
    if max(rows[HALVED][:2]) > Targets().lost_max:
        print(
            "half of the evidence loses more than the 0.03 of the aim; without the decisive line a verdict is a guess:"
        )
        print("it is reported, and does not change the exit code\n", flush=True)
    return failed, rows


def time_it(rules: RuleSet, stream_mib: int) -> tuple[list[str], list[dict[str, object]]]:
    """Time `phalanx diagnose`, print it, and return what is too slow or too big."""
    templates = read_templates(DATA / "healthy")
    healthy = long_runs(templates, 3)
    errors = [event.line for events in all_evidence(DATA / "incidents").values() for event in events]
    # One error line in three: what a storm of failing ranks writes.
    mixed = [line for place, line in enumerate(errors) for line in (line, *healthy[2 * place : 2 * place + 2])]
    with tempfile.TemporaryDirectory() as folder:
        small, log, stream = (Path(folder) / name for name in ("small.log", "rank_0.log", "stream.log"))
        start = diagnosed("start", small, write_log(small, healthy[:50], 1))
        rows = []
        for what, lines, size in (("healthy training logs", healthy, 256), ("every third line an error", mixed, 64)):
            count = write_log(log, lines, size * MIB)
            rows.append(diagnosed(what, log, count, start=start))
        count = write_log(log, healthy, 64 * MIB)
        rows += floors(log, count, [each.pattern for each in rules.signatures])
        log.unlink()
        count = write_log(stream, healthy, stream_mib * MIB)
        rows.append(diagnosed(f"a stream of {stream_mib} MiB, piped", stream, count, piped=True, start=start))
    load = os.getloadavg()[0]
    print(f"speed; load {load:.1f}, start {start.cpu_s:.2f} s of CPU taken off", *speed_lines(rows), "", sep="\n")
    healthy_run, piped = rows[0], rows[-1]
    failed = [
        f"{each.what}: {each.lines_per_s:,.0f} lines/s; {LINES_PER_S_MIN:,} are promised"
        for each in (healthy_run, piped)
        if each.lines_per_s < LINES_PER_S_MIN
    ]
    if piped.rss_mib > RSS_MIB_MAX:
        failed.append(f"{piped.what}: {piped.rss_mib:.0f} MiB resident; at most {RSS_MIB_MAX} are promised")
    return failed, [asdict(each) for each in rows]


def main() -> int:
    """Run the parts, and say with the exit code whether the promised figures are reached."""
    asked = parsed()
    folder: Path = asked.folder or asked.incidents
    parts = ("score",) if asked.folder else asked.only
    rules = load_rules()
    engine = Engine(rules)
    failed: list[str] = []
    data: dict[str, object] = {}
    try:
        whole = "score" in parts and not asked.folder
        found, outcomes = score(engine, folder, misses=asked.misses, diagnose=whole)
        data["score"] = as_data(found, outcomes)
        failed += not_reached(found["all"])
        if whole:
            own, others = score(engine, DATA / "incidents_own", misses=asked.misses, diagnose=False)
            data["own"] = as_data(own, others)
            gap = found["all"].macro_f1 - own["all"].macro_f1
            print(f"macro-F1 is {gap:.3f} lower on incidents_own; what it was when first met: its README.md\n")
        if "variants" in parts:
            lost_too_much, data["variants"] = vary(engine, folder, found["all"], asked.seeds)
            failed += lost_too_much
    except IncidentsRefused as error:
        print(f"bench-attribution: {error}", file=sys.stderr)
        return BAD_INPUT
    if "healthy" in parts:
        told = alarms(engine, read_templates(DATA / "healthy"), FILES, seed=2)
        print(f"{FILES} healthy log files: {len(told)} of them raise a verdict or an action", *told[:20], "", sep="\n")
        data["healthy"] = told
        failed += [f"{len(told)} of {FILES} healthy log files raise something"] if told else []
    if "speed" in parts:
        too_slow, data["speed"] = time_it(rules, asked.stream_mib)
        failed += too_slow
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(*(failed or ["no figure that the exit code counts is missed"]), sep="\n")
    return NOT_REACHED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
