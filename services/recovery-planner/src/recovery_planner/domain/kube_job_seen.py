"""What the operator sees of one job: its pods, their nodes, the planner's record, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery_planner.domain.kube_effects import Reason
from recovery_planner.domain.kube_job_spec import JobWish
from recovery_planner.domain.kube_pods import GangView, NodeView, PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why nothing can be done. `look_again_s`: somebody may have changed what we are not told of."""

    reason: Reason
    message: str
    look_again_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The world of one job.

    Attributes:
        status: of the object, as the API server has it; None: it has none.
        pods: those that carry the job's labels and belong to it or to nobody, by index.
        nodes: those that its pods are on, as far as somebody had to look.
        gang: the planner's record; None: there is none, or the bus is away.
        problem: what was found before, e.g. a spec that cannot be carried out.
    """

    status: Mapping[str, Any] | None
    pods: tuple[PodView, ...] = ()
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    gang: GangView | None = None
    problem: Problem | None = None

    @property
    def running(self) -> int:
        """Launchers that run and are not told to go."""
        return sum(pod.running and not pod.deleting for pod in self.pods)

    def pod_at(self, index: int) -> PodView | None:
        """The pod of an index."""
        return next((pod for pod in self.pods if pod.index == index), None)

    def why_not_running(self, wish: JobWish) -> str:
        """How many of the gang run, and what the first of the others says."""
        count = f"{self.running} of {wish.nnodes} nodes came in {wish.admission_s:.0f} s"
        waiting = next((pod for pod in self.pods if not pod.running and pod.message), None)
        return count if waiting is None else f"{count}; {waiting.name}: {waiting.message}"
