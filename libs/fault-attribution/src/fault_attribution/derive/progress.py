"""What became of the work: did it go on, had it ever begun, how large was the job, did it slow down and where.

work_went_on     work is seen after the trouble, or its good end; captures how (order, time, end, unharmed)
nothing_failed   no process failed and no worker told of trouble (one finding)
never_trained    workers wrote, and no step, epoch or checkpoint is among it (one finding)
hours_in         the job had run for an hour or a thousand steps (one finding)
large_job, small_job   by world size or rank numbers (one finding)
steps_slower     a rank's steps became slower; captures ratio. steps_recovered: and fast again
slow_on_one_node steps of one node are slower than those of the others; captures ratio
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from fault_attribution.derive.collectives import world_size
from fault_attribution.derive.in_order import in_order
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role

DONE = ("step_done", "epoch_done", "checkpoint_saved", "training_finished")
APART_S = 60.0
"""Times nearer than this are not compared between streams: clocks and collectors differ by as much."""
HOUR_S = 3_600.0
MANY_STEPS = 1_000
LARGE_RANKS = 256
SMALL_RANKS = 8
DOWN_MIN = 8
"""Of so many following steps at most one may be lower than the one before; a shuffled series has every other one."""
SLOWER = 1.5
"""Ratio of step times that is more than noise of evaluation, logging and checkpoints."""
UNEVEN = 1.25
"""Ratio between nodes that a synchronous job shows only where each logs its own compute time."""
_WORKER = (Source.WORKER_STDERR, Source.WORKER_STDOUT, Source.UNKNOWN)
FATAL = frozenset(
    {
        "nccl_timeout", "nccl_watchdog_abort", "nccl_remote_error", "nccl_system_error", "nccl_cuda_error",
        "nccl_internal_error", "nccl_heartbeat_stuck", "python_fatal",
    }
)  # fmt: skip
"""A process that writes one of these ends, whether or not its exit is told."""
_TROUBLE = (Role.CAUSE, Role.SYMPTOM, Role.VICTIM, Role.BENIGN)


def progress(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive all of the above."""
    # A stable order: what is derived must not depend on how streams interleave.
    findings = in_order(findings)
    done = list(_steady([each for each in findings if each.kind in DONE]))
    failed = [each for each in findings if each.kind == "exit_failed" or each.kind in FATAL]
    finished = [each for each in findings if each.kind in ("training_finished", "ended_well")]
    trouble = [each for each in findings if each.role in _TROUBLE and not each.rule_id.startswith("derive.")]
    harmed = [each for each in trouble if _harms(each)]
    ended = any(each.kind == "ended_well" for each in finished)
    unharmed = bool(findings) and not failed and (not harmed or ended)
    if unharmed:
        yield _whole("nothing_failed", findings[:1], "no process failed and no worker told of trouble")
    if trouble and not failed:
        how, rests_on = _went_on(done, trouble, finished, unharmed=unharmed)
        if how:
            yield _whole("work_went_on", rests_on[:1], "work went on after it", how=how)
    workers = [each for each in findings if each.source in _WORKER[:2]]
    if workers and not done:
        yield _whole("never_trained", workers[:1], "no step, epoch or checkpoint is seen")
    yield from _size(findings, done)
    yield from _speed(done)


def _steady(done: Sequence[Finding]) -> Iterator[Finding]:
    """Progress that belongs together: the steps of a series go up, and down again only where an epoch begins anew.

    Where they go up and down at random, lines of several jobs were mixed, and nothing follows from their order.
    """
    series: dict[tuple[str, str, str, int | None, str], list[Finding]] = {}
    for each in done:
        series.setdefault((each.stream, str(each.source), each.node, each.rank, each.rule_id), []).append(each)
    for found in series.values():
        found.sort(key=lambda each: each.number)
        steps = [number for each in found if (number := _place_in_run(each)) is not None]
        down = sum(1 for before, after in pairwise(steps) if after < before)
        if down < 2 or DOWN_MIN * down < len(steps):
            yield from found


def _place_in_run(finding: Finding) -> float | None:
    step = finding.number_of("step")
    return finding.number_of("epoch") if step is None else step


def _harms(finding: Finding) -> bool:
    if finding.role is Role.BENIGN:
        return False
    if finding.source in _WORKER:
        return True
    return finding.source is Source.K8S and finding.role is not Role.VICTIM


def _went_on(
    done: Sequence[Finding], trouble: Sequence[Finding], finished: Sequence[Finding], *, unharmed: bool
) -> tuple[str, Sequence[Finding]]:
    if finished:
        return "end", finished
    later = [each for each in done if any(_same(each, other) and each.number > other.number for other in trouble)]
    after = [each for each in later if not any(_same(each, one) and one.number > each.number for one in trouble)]
    if after:
        return "order", after
    last = max((each.at_s for each in trouble if each.at_s is not None), default=None)
    apart = [each for each in done if last is not None and each.at_s is not None and each.at_s > last + APART_S]
    if apart:
        return "time", apart
    return ("unharmed", done) if done and unharmed else ("", ())


def _same(one: Finding, other: Finding) -> bool:
    return bool(one.stream) and (one.stream, one.source, one.rank) == (other.stream, other.source, other.rank)


def _size(findings: Sequence[Finding], done: Sequence[Finding]) -> Iterator[Finding]:
    ranks = {each.rank for each in findings if each.rank is not None}
    size = max(world_size(findings), max(ranks, default=-1) + 1)
    nodes = {each.node for each in findings if each.node}
    if size >= LARGE_RANKS:
        yield _whole("large_job", findings[:1], f"the job has at least {size} ranks")
    elif 0 < size <= SMALL_RANKS and len(nodes) <= 1:
        yield _whole("small_job", findings[:1], f"the job has {size} ranks as far as is seen")
    steps = [number for each in done if (number := each.number_of("step")) is not None]
    times = [each.at_s for each in findings if each.at_s is not None and each.source in _WORKER[:2]]
    if max(steps, default=0.0) >= MANY_STEPS or (times and max(times) - min(times) >= HOUR_S and done):
        yield _whole("hours_in", done[:1], "the job had run for long")


def _speed(done: Sequence[Finding]) -> Iterator[Finding]:
    # Only lines of one format are compared: what one calls a step is a micro-batch for another.
    by_stream: dict[tuple[str, str, int | None, str, str], list[Finding]] = {}
    by_format: dict[str, dict[str, list[Finding]]] = {}
    for each in done:
        took = step_time_s(each)
        if took is not None and took > 0:
            key = (each.node, str(each.source), each.rank, each.stream, f"{each.kind} {each.rule_id}")
            by_stream.setdefault(key, []).append(each)
            if each.node and each.kind != "epoch_done":
                by_format.setdefault(each.rule_id, {}).setdefault(each.node, []).append(each)
    for steps in by_stream.values():
        yield from _slower(steps)
    for by_node in by_format.values():
        yield from _slow_node(by_node)


def _slow_node(by_node: dict[str, list[Finding]]) -> Iterator[Finding]:
    medians = {node: median(step_time_s(each) or 0.0 for each in steps) for node, steps in by_node.items()}
    if len(medians) < 2:
        return
    slow = max(sorted(medians), key=lambda node: medians[node])
    rest = median([value for node, value in medians.items() if node != slow])
    if medians[slow] >= UNEVEN * rest:
        ratio = f"{medians[slow] / rest:.2f}"
        text = f"steps of {slow} take {ratio} times as long as those of the other nodes"
        yield replace(_whole("slow_on_one_node", by_node[slow], text, ratio=ratio), node=slow)


def _slower(steps: list[Finding]) -> Iterator[Finding]:
    timed = all(each.at_s is not None for each in steps)
    spread = timed and max(each.at_s or 0 for each in steps) - min(each.at_s or 0 for each in steps) > APART_S
    ordered = sorted(steps, key=lambda each: (each.at_s or 0.0, each.number) if spread else (0.0, each.number))
    times = [value for each in ordered if (value := step_time_s(each)) is not None]
    if len(times) < 2:
        return
    best, worst = times[0], max(times[1:])
    if worst < SLOWER * best:
        return
    ratio = f"{worst / best:.2f}"
    base = ordered[times.index(worst, 1)]
    text = f"steps took {ratio} times as long: {best:g} s, then {worst:g} s"
    slow = [value for value in times if value >= SLOWER * best]
    counted = {"slow": str(len(slow)), "slow_s": f"{sum(slow):.0f}"}
    yield replace(_whole("steps_slower", [base], text, ratio=ratio, **counted), node=base.node, rank=base.rank)
    if times[-1] < 1.2 * best:
        yield replace(_whole("steps_recovered", [ordered[-1]], "and were fast again"), node=base.node, rank=base.rank)


def step_time_s(finding: Finding) -> float | None:
    """Seconds of a step, from whichever unit its framework writes."""
    if (value := finding.number_of("step_time_s")) is not None:
        return value
    if (value := finding.number_of("step_time_ms")) is not None:
        return value / 1_000
    if (value := finding.number_of("epoch_time_s")) is not None:
        return value
    value = finding.number_of("it_per_s")
    return 1 / value if value else None


def _whole(kind: str, rests_on: Sequence[Finding], text: str, **captures: str) -> Finding:
    base = rests_on[0] if rests_on else None
    return Finding(
        finding_id=f"{kind}:{base.finding_id if base else ''}",
        kind=kind,
        role=Role.CONTEXT,
        source=base.source if base else Source.UNKNOWN,
        captures=captures,
        text=text,
        rule_id="derive.progress",
        at_s=base.at_s if base else None,
        because=(base.finding_id,) if base else (),
    )
