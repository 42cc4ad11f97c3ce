"""What is the matter with nodes, and what befell other jobs, in the last minutes: bounded, and forgotten with time.

Kept in memory only. A restart of the service forgets it, and verdicts then rest on their own job's evidence until it
has filled again; a device that failed under a job is told by the planner (NodeFaulted) in any case.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fault_classifier.domain.evidence import Surrounding

CONDITIONS_MAX = 16
"""Per node; the newest. A node with more than that fails for the first ones."""
NODES_MAX = 16_384
"""Nodes with a condition in the window: a large cluster, all of it."""
JOBS_MAX = 512
"""Verdicts and broken jobs that are remembered."""
RECENT = timedelta(minutes=15)
"""A condition may precede a fault by this much: ECC errors, a link that flaps, a disk that fills."""
AT_ONCE = timedelta(minutes=5)
"""Jobs that break in this time may break of one thing: longest time-outs of collectives differ by minutes."""
LATE = timedelta(seconds=15)
"""A condition that comes so soon after a fault may explain it: two sweeps of NVML, a line of the kernel log."""
SAME_CAUSE, OTHERS_HERE = "same_cause_in_other_jobs", "other_jobs_failed_here"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fallen:
    """A verdict on a job."""

    at: datetime
    job_id: str
    cause: str
    nodes: frozenset[str]


@dataclass(slots=True)
class Neighbourhood:
    """Nodes with their conditions, and jobs that broke lately."""

    _conditions: OrderedDict[str, deque[tuple[datetime, Surrounding]]] = field(default_factory=OrderedDict)
    _fallen: deque[_Fallen] = field(default_factory=lambda: deque(maxlen=JOBS_MAX))
    _broken: OrderedDict[str, tuple[datetime, int, frozenset[str]]] = field(default_factory=OrderedDict)

    def note_condition(self, condition: Surrounding, now: datetime) -> tuple[tuple[str, int], ...]:
        """Remember it; returns jobs (with their generation) that broke a moment ago on that node."""
        kept = self._conditions.setdefault(condition.node_id, deque(maxlen=CONDITIONS_MAX))
        kept.append((now, condition))
        self._conditions.move_to_end(condition.node_id)
        while len(self._conditions) > NODES_MAX:
            self._conditions.popitem(last=False)
        return tuple(
            (job_id, version)
            for job_id, (at, version, nodes) in self._broken.items()
            if condition.node_id in nodes and now - at <= LATE
        )

    def clear_condition(self, node_id: str, condition_id: str) -> None:
        """It is over: what breaks from now on did not break of it."""
        kept = self._conditions.get(node_id)
        if kept is not None:
            left = [pair for pair in kept if pair[1].evidence_id != condition_id]
            self._conditions[node_id] = deque(left, maxlen=CONDITIONS_MAX)

    def note_broken(self, job_id: str, topology_version: int, nodes: Iterable[str], now: datetime) -> None:
        """A job has a sign of a fault on these nodes."""
        _, version, known = self._broken.pop(job_id, (now, topology_version, frozenset[str]()))
        nodes = frozenset(nodes) | (known if version == topology_version else frozenset())
        self._broken[job_id] = (now, topology_version, nodes)
        while len(self._broken) > JOBS_MAX:
            self._broken.popitem(last=False)

    def note_verdict(self, job_id: str, cause: str, nodes: Iterable[str], now: datetime) -> None:
        """A job was judged."""
        self._fallen.append(_Fallen(at=now, job_id=job_id, cause=cause, nodes=frozenset(nodes)))

    def around(self, nodes: Iterable[str], now: datetime) -> tuple[Surrounding, ...]:
        """Recent conditions of these nodes."""
        return tuple(each for node in sorted(set(nodes)) for each in self._recent(node, now))

    def elsewhere(self, job_id: str, cause: str, nodes: Iterable[str], now: datetime) -> tuple[Surrounding, ...]:
        """What befell other jobs at the time: of the same cause anywhere, of any cause on the same nodes."""
        here = frozenset(nodes)
        others = [each for each in self._fallen if each.job_id != job_id and now - each.at <= AT_ONCE]
        same = [each for each in others if each.cause == cause]
        beside = [each for each in others if each.nodes & here]
        return (
            *_counted(SAME_CAUSE, same, f"broke of {cause}", ""),
            *_counted(OTHERS_HERE, beside, "broke on the same nodes", min(here, default="")),
        )

    def _recent(self, node: str, now: datetime) -> Iterator[Surrounding]:
        for at, condition in self._conditions.get(node, ()):
            if now - at <= RECENT:
                yield condition


def _counted(kind: str, fallen: list[_Fallen], words: str, node: str) -> Iterator[Surrounding]:
    jobs = {each.job_id for each in fallen}
    if not jobs:
        return
    nodes = {node for each in fallen for node in each.nodes}
    shown = ", ".join(sorted(jobs)[:4])
    yield Surrounding(
        evidence_id=kind,
        kind=kind,
        node_id=node,
        sentence=f"{len(jobs)} other jobs {words} in the last {AT_ONCE.seconds // 60} minutes: {shown}",
        captures={"jobs": str(len(jobs)), "nodes": str(len(nodes))},
    )
