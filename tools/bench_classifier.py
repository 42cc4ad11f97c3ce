"""How many evidence events one core judges a second, and how soon the first verdict is there: `make bench-classifier`.

The domain and the engine of fault-classifier with all shipped rules; no bus and no store. Three loads:

    storm    one gang of 1,024 ranks breaks: one cause, lines and deaths of victims from every rank
    jobs     many small jobs break one after the other, each of something else
    lines    healthy jobs whose ranks print warnings: nothing breaks

Each has to reach the figure by itself. `jobs` is the dearest: each of them is judged at its first death and once more
when it is quiet, which comes before its gang runs again.
Times are CPU times of this process, with the garbage collector set as in every service.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fault_attribution.cause_rule import CauseBook
from fault_attribution.loading.rule_files import load_rules
from fault_classifier.domain.classify import JudgePolicy, next_deadline, step
from fault_classifier.domain.event import Event, IncidentOver, IncidentSeen, LinesSeen, PieceSeen, TimePassed
from fault_classifier.domain.evidence import Exit, JobEvidence, Raised
from fault_classifier.domain.log_row import LogRow
from fault_contracts.agent import ExitStatus, OomKill
from fault_contracts.faults import FaultClassified
from service_kit.lifecycle import calm_the_collector

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
GLOO = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:59016"
CAUSES = ("cuda_oom", "file_missing", "nan_loss", "no_space", "module_missing", "tensor_shape_mismatch")
ROWS_PER_REPORT = 4


@dataclass(slots=True)
class Meter:
    """What was measured of one load."""

    events: int = 0
    took_s: float = 0.0
    first_ms: list[float] = field(default_factory=list)
    """From the first fatal signal to the first verdict, job by job."""
    verdicts: int = 0

    @property
    def per_s(self) -> float:
        """Events a second."""
        return self.events / self.took_s if self.took_s else 0.0


def row(rank: int, kind: str, role: str, ordinal: int) -> LogRow:
    """A finding of a rank's output."""
    return LogRow(
        kind=kind, role=role, signature_id=f"bench.{kind}", node_id=f"node-{rank // 8}", rank=rank, stream="stderr",
        ordinal=ordinal, process=str(1_000 + rank), text=f"rank {rank}: {kind} {GLOO}", captures={"seq": str(ordinal)},
    )  # fmt: skip


def death(rank: int, *, victim: bool, step_: int = 40) -> Exit:
    """A rank that ended: of a lost peer, or of something of its own."""
    error = (
        Raised(type="RuntimeError", message=GLOO, fingerprint="gloo")
        if victim
        else Raised(type="ValueError", message="bad", fingerprint="own")
    )
    status = ExitStatus(rank=rank, local_rank=rank % 8, pid=1_000 + rank, exit_code=1, oom_kill=OomKill.NO)
    return Exit(
        evidence_id=f"death-{rank}", node_id=f"node-{rank // 8}", status=status, ordinal=rank % 8, error=error,
        step=step_, ran_s=300.0,
    )  # fmt: skip


def storm(ranks: int) -> Iterator[tuple[str, Event, int]]:
    """One gang; the cause comes in the middle of its victims."""
    for rank in range(ranks):
        kinds = ("peer_closed", "collective_timeout", "library_exception", "exit_noticed")
        rows = tuple(row(rank, kind, "victim", n) for n, kind in enumerate(kinds[:ROWS_PER_REPORT]))
        yield "storm", LinesSeen(topology_version=1, rows=rows), len(rows)
        if rank == ranks // 2:
            yield "storm", LinesSeen(topology_version=1, rows=(row(rank, "cuda_oom", "cause", 9),)), 1
        yield "storm", PieceSeen(topology_version=1, piece=death(rank, victim=rank != ranks // 2)), 1
    yield "storm", IncidentSeen(topology_version=1, incident_id="incident"), 1


def jobs(count: int) -> Iterator[tuple[str, Event, int]]:
    """Jobs of eight ranks, each with a cause in its lines, a death and three victims."""
    for number in range(count):
        job = f"job-{number}"
        cause = row(0, CAUSES[number % len(CAUSES)], "cause", 0)
        yield job, LinesSeen(topology_version=1, rows=(cause, row(0, "python_exception", "symptom", 1))), 2
        yield job, PieceSeen(topology_version=1, piece=death(0, victim=False)), 1
        for rank in (1, 2, 3):
            rows = tuple(row(rank, kind, "victim", n) for n, kind in enumerate(("peer_closed", "library_exception")))
            yield job, LinesSeen(topology_version=1, rows=rows), len(rows)
            yield job, PieceSeen(topology_version=1, piece=death(rank, victim=True)), 1
        yield job, IncidentSeen(topology_version=1, incident_id=f"incident-{number}"), 1
        yield job, IncidentOver(topology_version=2), 1


def lines(count: int) -> Iterator[tuple[str, Event, int]]:
    """Warnings of healthy jobs."""
    for number in range(count):
        rows = tuple(row(number % 64, f"warning_{n}", "context", n) for n in range(ROWS_PER_REPORT))
        yield f"job-{number % 50}", LinesSeen(topology_version=1, rows=rows), len(rows)


def run(load: Iterator[tuple[str, Event, int]], book: CauseBook) -> Meter:
    """Judge a load, with time passing where a deadline is due."""
    policy, meter, now = JudgePolicy(), Meter(), NOON
    known: dict[str, JobEvidence] = {}
    broken: dict[str, float] = {}
    given: set[str] = set()
    for job_id, event, count in list(load):
        now += timedelta(milliseconds=1)
        job = known.get(job_id) or JobEvidence(job_id=job_id)
        began_s = time.process_time()
        if isinstance(event, PieceSeen):
            broken.setdefault(job_id, began_s)
        due = next_deadline(job)
        if isinstance(event, IncidentOver) and due is not None:
            now = max(now, due)  # a gang is back in seconds: what is judged when it is quiet is judged before
        effects: tuple[FaultClassified, ...] = ()
        if due is not None and due <= now:
            judged = step(job, TimePassed(), now=now, policy=policy, book=book)
            job, effects = judged.job, judged.effects
        judged = step(job, event, now=now, policy=policy, book=book)
        ended_s = time.process_time()
        known[job_id] = judged.job
        meter.took_s += ended_s - began_s
        meter.events += count
        meter.verdicts += len(judged.effects) + len(effects)
        if judged.effects and job_id not in given:
            given.add(job_id)
            meter.first_ms.append((ended_s - broken.get(job_id, began_s)) * 1e3)
    return meter


def main() -> int:
    """Print the table; 1 when a figure is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1_024, help="ranks of the storm (default 1024)")
    parser.add_argument("--jobs", type=int, default=400, help="small jobs (default 400)")
    parser.add_argument("--least", type=float, default=5_000.0, help="events a second to reach (default 5000)")
    options = parser.parse_args()
    rules = load_rules()
    calm_the_collector()  # as the service does, with its rules read and before its first message
    print(f"{len(rules.causes.rules)} cause rules, {len(rules.signatures)} signatures")
    print(f"{'load':8} {'events':>8} {'events/s':>10} {'verdicts':>9} {'first verdict, ms: median':>26} {'worst':>7}")
    missed = False
    for name, load in (("storm", storm(options.ranks)), ("jobs", jobs(options.jobs)), ("lines", lines(5_000))):
        meter = run(load, rules.causes)
        first = sorted(meter.first_ms) or [0.0]
        print(
            f"{name:8} {meter.events:8} {meter.per_s:10,.0f} {meter.verdicts:9} "
            f"{first[len(first) // 2]:26.2f} {first[-1]:7.2f}"
        )
        missed = missed or first[-1] > 100.0 or meter.per_s < options.least
    print("not reached" if missed else f"reached: {options.least:,.0f} events/s, first verdict within 100 ms")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
