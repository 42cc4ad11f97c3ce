"""Which gang works on a node, and in which part of it: GPUs of one gang do the same work and are each other's peers.

Learnt from messages that this service hears anyway. After a restart it is unknown until the job tells step times; the
GPUs of one node are compared with each other until then.
"""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.recovery import GangFormed, JobEnded
from fault_contracts.step_times import StepTimesReported

COHORT_NODES = 16
"""Of a large gang, so many nodes are held against each other: 128 GPUs are yardstick enough, and each report reads the
numbers of all of them."""
NODES_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A part of a gang."""

    job_id: str
    part: int

    @property
    def name(self) -> str:
        """Equal for equal cohorts."""
        return f"{self.job_id}/{self.part}"


class GangsOfNodes:
    """Changed in place, by messages of all jobs."""

    def __init__(self) -> None:
        self._cohorts: dict[str, Cohort] = {}

    def of(self, node_id: str) -> Cohort | None:
        """The cohort of a node, or None while no gang is known there."""
        return self._cohorts.get(node_id)

    def formed(self, formed: GangFormed) -> None:
        """A gang has begun; its nodes in the order of their ranks."""
        for place, node_id in enumerate(formed.nodes):
            self._learn(node_id, Cohort(job_id=formed.job_id, part=place // COHORT_NODES))

    def stepped(self, report: StepTimesReported) -> None:
        """A node works for a job; its place follows from its first rank."""
        if not report.ranks:
            return
        place = min(times.rank for times in report.ranks) // len(report.ranks)
        self._learn(report.node_id, Cohort(job_id=report.job_id, part=place // COHORT_NODES))

    def ended(self, ended: JobEnded) -> None:
        """A job is over."""
        over = [node_id for node_id, cohort in self._cohorts.items() if cohort.job_id == ended.job_id]
        for node_id in over:
            del self._cohorts[node_id]

    def _learn(self, node_id: str, cohort: Cohort) -> None:
        self._cohorts.pop(node_id, None)
        if len(self._cohorts) >= NODES_MAX:  # the one that was heard of longest ago; it is compared within its node
            del self._cohorts[next(iter(self._cohorts))]
        self._cohorts[node_id] = cohort
