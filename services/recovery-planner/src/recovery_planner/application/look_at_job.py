"""Looks at one TrainingJob: its pods, the nodes that are in doubt, the planner's record, and whether it can be done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from recovery_planner.application.kube_ports import NODES, KubeApi, KubeNotFound, Obj
from recovery_planner.application.ports import GangStore
from recovery_planner.domain.kube_effects import Reason
from recovery_planner.domain.kube_gang_view import gang_view
from recovery_planner.domain.kube_job_seen import Problem, Seen
from recovery_planner.domain.kube_job_spec import JobWish, problems_of
from recovery_planner.domain.kube_pods import GangView, NodeView, PodView, read_node, read_pod
from recovery_planner.domain.kube_seats import nodes_in_doubt
from service_kit.errors import ContractViolation, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

RECORD_LIMIT_S = 2.0
"""The planner's record is a hint here: a bus that does not answer does not hold the operator up."""
NODES_MAX = 64
"""Nodes looked at in one go; the others are looked at next time."""

log = get_logger(__name__)


class PolicyCheck(Protocol):
    """Reads a recovery policy as the launcher will."""

    def problem(self, wish: JobWish) -> str:
        """What is wrong with it, by field; empty when it can be used."""
        ...


class GangViews(Protocol):
    """What the planner's records say."""

    async def view(self, job_id: str) -> GangView | None:
        """Of this job; None: there is none, or it cannot be read now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGangs:
    """GangViews of the planner's bucket, read and never written."""

    store: GangStore

    async def view(self, job_id: str) -> GangView | None:
        """See the port."""
        try:
            async with asyncio.timeout(RECORD_LIMIT_S):
                stored = await self.store.load(job_id)
        except (TransientError, TimeoutError, ContractViolation) as error:
            log.info("record_not_read", job=job_id, error=str(error))
            return None
        return None if stored is None else gang_view(stored.gang)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEye:
    """The eye of the operator."""

    api: KubeApi
    clock: Clock
    gangs: GangViews
    policy_check: PolicyCheck

    async def look(self, wish: JobWish, job: Obj, pods: Iterable[Obj]) -> Seen:
        """Everything that a decision needs.

        Raises:
            KubeError: a node could not be read.
        """
        views = sorted((read_pod(body, wish.container) for body in pods), key=lambda pod: (pod.index, pod.name))
        ours = tuple(pod for pod in views if pod.owner_uid in ("", wish.uid) and 0 <= pod.index < wish.pods)
        seen = Seen(
            status=job.get("status"),
            pods=_one_a_seat(ours),
            gang=await self.gangs.view(wish.job_id),
            problem=self._problem(wish, job),
        )
        doubted = sorted(nodes_in_doubt(seen, self.clock.now()))[:NODES_MAX]
        nodes = [await self._node(name) for name in doubted]
        return Seen(
            status=seen.status,
            pods=seen.pods,
            nodes={node.name: node for node in nodes},
            gang=seen.gang,
            problem=seen.problem,
        )

    async def _node(self, name: str) -> NodeView:
        try:
            return read_node(name, await self.api.get(NODES, name))
        except KubeNotFound:
            return read_node(name, None)

    def _problem(self, wish: JobWish, job: Obj) -> Problem | None:
        found = problems_of(job)
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return Problem(reason=Reason.SPEC_INVALID, message=f"{found[0]}{more}")
        problem = self.policy_check.problem(wish) if wish.policy else ""
        return Problem(reason=Reason.SPEC_INVALID, message=f"spec.policy: {problem}") if problem else None


def _one_a_seat(pods: tuple[PodView, ...]) -> tuple[PodView, ...]:
    """Ours before nobody's: a copy that somebody made of a pod is not adopted beside it."""
    seats: dict[int, PodView] = {}
    for pod in pods:
        if pod.index not in seats or (pod.owner_uid and not seats[pod.index].owner_uid):
            seats[pod.index] = pod
    return tuple(seats.values())
