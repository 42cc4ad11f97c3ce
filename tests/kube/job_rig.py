"""The operator of jobs with a whole cluster around it, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from job_player import Player, peek, until
from kube_call import Call
from kube_cluster import Cluster, Obj
from kube_memory import MemoryKube

from recovery_planner.adapters.kube_policy_check import LauncherPolicyCheck
from recovery_planner.application.carry_out_job import JobHand
from recovery_planner.application.look_at_job import JobEye
from recovery_planner.application.reconcile_jobs import JobOperator
from recovery_planner.domain.kube_job_objects import LauncherPlace
from recovery_planner.domain.kube_pods import GangView
from service_kit.cancellation import cancel_all
from service_kit.testing.virtual_clock import LoopClock, run_virtual

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = yaml.safe_load((ROOT / "deploy/kubernetes/crd/trainingjob.yaml").read_text(encoding="utf-8"))
GROUP = "phalanx.dev"
PLACE = LauncherPlace(nats_url="nats://phalanx-nats.phalanx:4222", cluster="test")


class Killed(BaseException):
    """The operator's process is gone."""


class Gangs:
    """The planner's records, as a test says them."""

    def __init__(self) -> None:
        self.views: dict[str, GangView] = {}

    async def view(self, job_id: str) -> GangView | None:
        return self.views.get(job_id)


class Rig:
    """One cluster, and operators that come and go."""

    def __init__(self, *, nodes: int) -> None:
        self.clock = LoopClock()
        self.cluster = Cluster(now=self.clock.now)
        self.cluster.create("customresourcedefinitions", DEFINITION, group="apiextensions.k8s.io")
        self.player = Player(self.cluster, self.clock, nodes=nodes)
        self.gangs = Gangs()
        self._tasks: list[asyncio.Task[None]] = []
        self.operator: asyncio.Task[None] | None = None
        self.job_operator: JobOperator | None = None

    def start(self, *, user: str = "admin") -> None:
        """Cluster and operator."""
        self._tasks.append(asyncio.create_task(self.player.run()))
        self.start_operator(user=user)

    def start_operator(self, *, user: str = "admin") -> None:
        api = MemoryKube(self.cluster, user=user)
        eye = JobEye(api=api, clock=self.clock, gangs=self.gangs, policy_check=LauncherPolicyCheck())
        self.job_operator = JobOperator(eye=eye, hand=JobHand(api=api, clock=self.clock, place=PLACE), clock=self.clock)
        self.operator = asyncio.create_task(self.job_operator.run())

    async def stop_operator(self) -> None:
        assert self.operator is not None
        await cancel_all([self.operator])

    async def stop(self) -> None:
        await self.stop_operator()
        await cancel_all(self._tasks)

    # ------------------------------------------------------------------------------------------------ the job

    def submit(self, name: str = "llm", **spec: Any) -> Obj:
        return self.cluster.create("trainingjobs", job_body(name, **spec), namespace="default", group=GROUP)

    def job(self, name: str = "llm") -> Obj | None:
        return self.cluster._objects[GROUP, "trainingjobs"].get(("default", name))

    def edit(self, spec: Mapping[str, Any], name: str = "llm") -> None:
        self.cluster.patch("trainingjobs", name, {"spec": spec}, namespace="default", group=GROUP)

    def status(self, name: str = "llm") -> dict[str, Any]:
        return dict((self.job(name) or {}).get("status", {}))

    def condition(self, type_: str, name: str = "llm") -> dict[str, Any]:
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == type_), {})

    def state(self, name: str = "llm") -> str:
        return str(self.status(name).get("state", ""))

    def pods(self) -> list[Obj]:
        return [pod for pod in peek(self.cluster, "pods") if pod["metadata"]["namespace"] == "default"]

    def running(self) -> list[Obj]:
        return [
            pod
            for pod in self.pods()
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]

    def pod(self, name: str) -> Obj:
        found = self.cluster._objects["", "pods"].get(("default", name))
        return found or {"metadata": {"uid": "none"}, "status": {}, "spec": {}}

    def gang(self, phase: str = "running", name: str = "llm", **more: Any) -> None:
        """What the planner's record says from now on; the operator is told, as over the bus."""
        job = self.job(name)
        assert job is not None
        job_id = f"default/{name}.{job['metadata']['uid'][:8]}"
        values = {"topology_version": 1, "nnodes": job["spec"]["nnodes"], "restarts": 0, **more}
        self.gangs.views[job_id] = GangView(phase=phase, **values)
        if self.job_operator is not None:
            self.job_operator.heard_of(job_id)

    def events(self, reason: str = "") -> list[Obj]:
        return [each for each in peek(self.cluster, "events") if not reason or each["reason"] == reason]

    def writes(self, verb: str = "", plural: str = "") -> list[Call]:
        return [
            call
            for call in self.cluster.calls
            if call.writes and (not verb or call.verb == verb) and (not plural or call.plural == plural)
        ]

    async def until(self, what: Callable[[], Any], limit_s: float = 60.0) -> None:
        await until(what, limit_s=limit_s, clock=self.clock)

    async def all_run(self, count: int, limit_s: float = 60.0) -> None:
        await self.until(lambda: len(self.running()) == count, limit_s)


def job_body(name: str = "llm", **spec: Any) -> dict[str, Any]:
    """A job of two nodes, unless it says otherwise."""
    template = {
        "spec": {
            "containers": [{"name": "trainer", "image": "registry/llm:1", "command": ["phalanx", "run", "train.py"]}]
        }
    }
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"nnodes": 2, "template": template, **spec},
    }


def play(story: Callable[[Rig], Awaitable[None]], *, nodes: int = 4, user: str = "admin") -> Rig:
    """Run a story on virtual time."""

    async def main() -> Rig:
        rig = Rig(nodes=nodes)
        rig.start(user=user)
        try:
            await story(rig)
        finally:
            await rig.stop()
        return rig

    return run_virtual(main())
