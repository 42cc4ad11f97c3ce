"""How fast node-agent looks at the output of its ranks: lines/s on one core by number of rules, captures included.

Beside the engine, in the same run: the floor (cutting the output into lines and nothing else) and Python's `re`, rule
by rule on each line, which is what a log monitor usually does. Eight ranks write; one line in ten concerns one rule.

    make bench-agent
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_output_bench import cpu_share_of_output

from node_agent.adapters.log_engine import RuleMatcher
from node_agent.adapters.log_rules_yaml import parse_rules
from node_agent.application.log_ports import LogCheckpoint, LogFinding, LogProgress, RuleFile
from node_agent.application.watch_logs import WatchLogs
from node_agent.domain.log_rule import LogStream
from service_kit.clock import SystemClock
from training_topology.identity import LocalRank, Rank

RANKS = 8
CHUNK_BYTES = 64 * 1024
"""What the agent reads at once from a busy rank."""
HIT_SHARE = 0.1
RULE_COUNTS = (1, 5, 20, 100)
"""The third is the one with a target."""
RE_LINES_MAX = 10_000
"""`re` takes 100 us a line with 100 rules; the rate does not depend on the number of lines."""
TARGET_LINES_PER_S = 350_000
TARGET_CPU_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """One sort of rule, and a line it matches; `{n}` is the rule's number, `{v}` a value."""

    yaml: str
    line: str


SORTS = (
    Sort(
        yaml=r"""{name: loss-{n}, action: fault, logPattern: '.*training_loss_{n}: (\d+(?:\.\d+)?).*', """
        "metricThreshold: 50, operator: gt, metricEvaluationDataPoints: 5, nonFinite: [nan, inf]}",
        line="INFO epoch=3 step=12345 training_loss_{n}: {v:.4f} lr: 0.000123 tokens/s: 81234.5 grad_norm: 1.2",
    ),
    Sort(
        yaml=r"""{name: rate-{n}, logPattern: '.*throughput_{n} = (\S+) samples/sec.*', operator: lt, """
        "relativeThreshold: 0.1, expectedRecurringFrequencyInSeconds: 600}",
        line="INFO throughput_{n} = {v:.2f} samples/sec over the last 10 steps, memory 71.2 GiB of 80.0 GiB reserved",
    ),
    Sort(
        yaml=r"""{name: step-{n}, kind: progress, mode: search, logPattern: 'worker_{n} step (?P<step>\d+) done'}""",
        line="INFO worker_{n} step 12345 done in {v:.1f} ms, forward 11.2 ms, backward 23.4 ms, optimizer 5.6 ms",
    ),
    Sort(
        yaml=r"""{name: save-{n}, kind: checkpoint, """
        r"""logPattern: '.*Saved checkpoint_{n} at step (?P<step>\d+) to (?P<path>\S+).*'}""",
        line="INFO Saved checkpoint_{n} at step 12345 to /checkpoints/run-17/step-00012345 in {v:.1f} s, 12 files",
    ),
    Sort(
        yaml=r"""{name: oom-{n}, kind: fault, action: observe, logPattern: '.*RuntimeError_{n}.*out of memory.*'}""",
        line="ERROR RuntimeError_{n}: CUDA out of memory, tried to allocate {v:.2f} MiB; 79.1 GiB in use here",
    ),
)
WORDS = (
    "forward",
    "allreduce",
    "bucket",
    "tokens",
    "memory reserved",
    "queue",
    "loss",
    "step",
    "rank",
    "INFO throughput",
)
"""Of the lines that concern no rule; some begin like the text that rules look for."""


class Reports:
    """Takes what is told, and counts it."""

    def __init__(self) -> None:
        self.findings = 0
        self.captures = 0

    def on_log_finding(self, _finding: LogFinding) -> None:
        """Count."""
        self.findings += 1

    def on_log_progress(self, _progress: LogProgress) -> None:
        """Count."""
        self.captures += 1

    def on_log_checkpoint(self, _checkpoint: LogCheckpoint) -> None:
        """Count."""
        self.captures += 1


def rules_of(count: int) -> RuleFile:
    """So many rules of all sorts."""
    items = "\n".join("  - " + SORTS[n % len(SORTS)].yaml.replace("{n}", f"{n:03d}") for n in range(count))
    file = parse_rules(f"rules:\n{items}\n".encode(), "bench")
    assert len(file.rules) == count, file.refused
    return file


def lines_of(count: int, rules: int, rng: random.Random) -> list[bytes]:
    """Output of a training run: 110 to 200 bytes a line, one in ten for one of the rules."""
    lines = []
    for number in range(count):
        if rng.random() < HIT_SHARE:
            n = rng.randrange(rules)
            text = SORTS[n % len(SORTS)].line.replace("{n}", f"{n:03d}").replace("12345", str(number))
            text = text.format(v=rng.uniform(1, 40))
        else:
            text = " ".join(f"{rng.choice(WORDS)}:{rng.randrange(10_000)}" for _ in range(rng.randint(8, 14)))
        lines.append(f"2026-01-02 03:04:05,678 {text}".encode())
    return lines


def chunks_of(lines: Sequence[bytes]) -> list[tuple[Rank, bytes]]:
    """As eight ranks deliver them: in pieces that end anywhere."""
    streams = [b"".join(line + b"\n" for line in lines[rank::RANKS]) for rank in range(RANKS)]
    longest = max(map(len, streams))
    return [
        (Rank(rank), stream[at : at + CHUNK_BYTES])
        for at in range(0, longest, CHUNK_BYTES)
        for rank, stream in enumerate(streams)
        if at < len(stream)
    ]


def watch_of(rules: RuleFile) -> tuple[WatchLogs, Reports]:
    """A watch on eight ranks."""
    reports = Reports()
    watch = WatchLogs(clock=SystemClock(), reports=reports, make_matcher=RuleMatcher)
    watch.use(rules)
    watch.start({Rank(rank): LocalRank(rank) for rank in range(RANKS)})
    return watch, reports


def cpu_s(prepare: Callable[[], Callable[[], object]], repeat: int) -> float:
    """Least CPU time of a few runs, each freshly prepared: what else runs on the machine only adds."""
    took = []
    for _ in range(repeat):
        work = prepare()
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def run_floor(chunks: Sequence[tuple[Rank, bytes]]) -> int:
    """Cut into lines, nothing else."""
    return sum(len(data.split(b"\n")) for _, data in chunks)


def run_watch(watch: WatchLogs, chunks: Sequence[tuple[Rank, bytes]]) -> None:
    """The whole way: whole lines, prefilter, captures, states, reports."""
    for rank, data in chunks:
        watch.take(rank, LogStream.STDOUT, data)


def run_re(rules: RuleFile, lines: Sequence[bytes]) -> int:
    """Python's `re`, every rule on every line; no states, no reports."""
    tries = [
        re.compile(rule.pattern).match if rule.mode == "match" else re.compile(rule.pattern).search
        for rule in rules.rules
    ]
    hits = 0
    for line in lines:
        text = line.decode()
        for attempt in tries:
            found = attempt(text)
            if found is not None:
                found.groups()
                hits += 1
    return hits


def measure(count: int, lines_max: int, repeat: int) -> dict[str, float]:
    """One row of the table."""
    rules = rules_of(count)
    lines = lines_of(lines_max, count, random.Random(count))
    chunks = chunks_of(lines)
    watch, reports = watch_of(rules)
    run_watch(watch, chunks)
    health = watch.health()
    assert (health.lines, health.errors) == (len(lines), 0), health
    share = health.hits / health.lines
    assert abs(share - HIT_SHARE) < 0.02, share
    few = lines[:RE_LINES_MAX]
    floor = len(lines) / cpu_s(lambda: partial(run_floor, chunks), repeat)
    engine = len(lines) / cpu_s(lambda: partial(run_watch, watch_of(rules)[0], chunks), repeat)
    rule_by_rule = len(few) / cpu_s(lambda: partial(run_re, rules, few), min(repeat, 3))
    return {
        "rules": count,
        "bytes_per_line": sum(map(len, lines)) / len(lines),
        "hit_share": share,
        "findings": reports.findings,
        "captures": reports.captures,
        "floor_lines_per_s": floor,
        "engine_lines_per_s": engine,
        "re_lines_per_s": rule_by_rule,
        "engine_over_re": engine / rule_by_rule,
        "engine_over_floor": engine / floor,
    }


def measure_trickle(repeat: int) -> dict[str, float]:
    """CPU of the watch at 1,000 lines/s when each line comes alone, with 20 rules; reading pipes is not in it."""
    rules = rules_of(20)
    lines = [line + b"\n" for line in lines_of(5_000, 20, random.Random(7))]
    chunks = [(Rank(number % RANKS), line) for number, line in enumerate(lines)]
    took_s = cpu_s(lambda: partial(run_watch, watch_of(rules)[0], chunks), repeat)
    return {"rules": 20, "lines_per_s": 1_000, "cpu_share": took_s / len(lines) * 1_000}


def measure_output(seconds: int) -> dict[str, float]:
    """CPU of everything an agent does with 1,000 lines/s of eight ranks, with and without rules, in real time."""
    lines = [line + b"\n" for line in lines_of(seconds * 1_000, 20, random.Random(8))]
    watch, _ = watch_of(rules_of(20))
    plain = cpu_share_of_output(lines, lines_per_s=1_000, ranks=RANKS, watch=None)
    watched = cpu_share_of_output(lines, lines_per_s=1_000, ranks=RANKS, watch=watch)
    assert watch.health().lines == len(lines), watch.health()
    return {"rules": 20, "lines_per_s": 1_000, "cpu_share": watched, "cpu_share_without_rules": plain}


def table(rows: Sequence[dict[str, float]]) -> Iterator[str]:
    """For people."""
    names = ("floor", "engine", "re, rule by rule", "engine / re", "engine / floor")
    yield f"{'rules':>6} " + " ".join(f"{name:>17}" for name in names)
    for row in rows:
        yield (
            f"{row['rules']:>6.0f} {row['floor_lines_per_s']:>17,.0f} {row['engine_lines_per_s']:>17,.0f} "
            f"{row['re_lines_per_s']:>17,.0f} {row['engine_over_re']:>17.1f} {row['engine_over_floor']:>17.2f}"
        )


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of output per row")
    parser.add_argument("--repeat", type=int, default=5, help="runs of which the fastest counts")
    parser.add_argument("--out", type=Path, default=Path(".bench/agent.json"))
    parser.add_argument("--seconds", type=int, default=5, help="real time for each run at 1,000 lines/s")
    arguments = parser.parse_args()
    rows = [measure(count, arguments.lines, arguments.repeat) for count in RULE_COUNTS]
    trickle = measure_trickle(arguments.repeat)
    output = measure_output(arguments.seconds)
    print(f"lines per CPU second, {RANKS} ranks, {rows[0]['bytes_per_line']:.0f} bytes a line, 10 % concern a rule")
    print("\n".join(table(rows)))
    at_20, share = rows[2]["engine_lines_per_s"], output["cpu_share"]
    print(f"20 rules: {at_20:,.0f} lines/s, wanted {TARGET_LINES_PER_S:,}: {verdict(at_20 >= TARGET_LINES_PER_S)}")
    allowed = f"allowed {TARGET_CPU_SHARE:.0%}: {verdict(share <= TARGET_CPU_SHARE)}"
    print(f"CPU of one line at a time, 1,000 lines/s, the watch alone: {trickle['cpu_share']:.1%} of a core")
    without = output["cpu_share_without_rules"]
    print(f"the same with pipes, files and terminal: {share:.1%} of a core, {without:.1%} without rules; {allowed}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"rows": rows, "trickle": trickle, "output": output}, indent=2) + "\n")
    print(f"written to {arguments.out}")


def verdict(reached: bool) -> str:
    """For people."""
    return "reached" if reached else "MISSED"


if __name__ == "__main__":
    main()
