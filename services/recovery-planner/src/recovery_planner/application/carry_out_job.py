"""Carries out what was decided about a TrainingJob, call by call; and says what stood in the way, in the job's words.

Every call may be repeated: names are fixed, deletions name the uid, an event has the name of its cause. So whoever is
killed between two calls decides again and goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fault_contracts.ids import derived_id
from recovery_planner.application.kube_ports import (
    CONFIG_MAPS,
    PODS,
    SERVICES,
    TRAINING_JOBS,
    KubeAlreadyExists,
    KubeApi,
    KubeConflict,
    KubeEvent,
    KubeForbidden,
    KubeInvalid,
    KubeNotFound,
    Obj,
)
from recovery_planner.domain.kube_effects import (
    AdoptPod,
    ApplySupport,
    CreatePod,
    DeleteJob,
    DeletePod,
    KubeEffect,
    Reason,
    TellEvent,
    WriteStatus,
)
from recovery_planner.domain.kube_job_objects import (
    LauncherPlace,
    adoption_body,
    config_body,
    pod_body,
    service_body,
)
from recovery_planner.domain.kube_job_seen import Problem
from recovery_planner.domain.kube_job_spec import JobWish
from recovery_planner.domain.kube_job_status import api_time
from recovery_planner.domain.kube_pods import LABEL_JOB
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

CALLS_AT_ONCE = 16
"""Of one job. The API server's own limit of a client without priority is 100 or more; 500 pods take 31 rounds."""
DENIED_AGAIN_S = 60.0
"""Rights, quotas and other people's objects change by hand."""

log = get_logger(__name__)


class InTheWay(Exception):
    """A refusal that trying again does not help against."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class NotGoneYet(TransientError):
    """An object of a job before, with the same name, is still being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHand:
    """The hand of the operator."""

    api: KubeApi
    clock: Clock
    place: LauncherPlace

    async def carry_out(self, wish: JobWish, base: Obj, effects: Iterable[KubeEffect]) -> Obj:
        """In order; pods at once. Returns the job as it stands after the status was written.

        Raises:
            InTheWay: with the problem; everything else was carried out.
            KubeError: unavailable, throttled, or the job has changed since it was read.
        """
        problems: list[Problem] = []
        pods: list[CreatePod | DeletePod | AdoptPod] = []
        for effect in effects:
            if isinstance(effect, CreatePod | DeletePod | AdoptPod):
                pods.append(effect)
                continue
            try:
                base = await self._one(wish, base, effect)
            except InTheWay as found:
                problems.append(found.problem)
        gate = asyncio.Semaphore(CALLS_AT_ONCE)
        results = await asyncio.gather(*(self._pod(wish, gate, effect) for effect in pods), return_exceptions=True)
        for result in results:
            if isinstance(result, InTheWay):
                problems.append(result.problem)
            elif isinstance(result, BaseException):
                raise result
        if problems:
            raise InTheWay(problems[0])
        return base

    async def _one(self, wish: JobWish, base: Obj, effect: KubeEffect) -> Obj:
        match effect:
            case TellEvent():
                await self._tell(wish, base, effect)
            case WriteStatus():
                return await self._write_status(base, effect.status)
            case ApplySupport():
                await self._apply_support(wish)
            case DeleteJob():
                await _unless_gone(self.api.delete(TRAINING_JOBS, wish.name, namespace=wish.namespace, uid=effect.uid))
            case CreatePod() | DeletePod() | AdoptPod():
                raise AssertionError("pods are done at once")
        return base

    async def _tell(self, wish: JobWish, base: Obj, event: TellEvent) -> None:
        name = f"{wish.name}.{derived_id(wish.uid, event.reason, event.cause)[:16]}"
        at = api_time(self.clock.now())
        told = KubeEvent(
            about=base, name=name, reason=event.reason, message=event.message[:1_000], warning=event.warning, at=at
        )
        try:
            await self.api.tell(told)
        except (KubeForbidden, KubeInvalid, KubeNotFound) as error:
            # An event is for people; a job does not wait for the right to tell one.
            log.warning("event_refused", job=wish.job_id, reason=event.reason, error=str(error))

    async def _write_status(self, base: Obj, status: Mapping[str, Any]) -> Obj:
        """On exactly the object that was decided about: two operators at once cannot undo each other's word."""
        meta = base["metadata"]
        body = {
            "apiVersion": TRAINING_JOBS.api_version,
            "kind": TRAINING_JOBS.kind,
            "metadata": {
                "name": meta["name"],
                "namespace": meta.get("namespace", ""),
                "resourceVersion": meta["resourceVersion"],
            },
            "status": dict(status),
        }
        return await self.api.apply(TRAINING_JOBS, body, subresource="status", force=True)

    async def _apply_support(self, wish: JobWish) -> None:
        for kind, body in ((SERVICES, service_body(wish)), (CONFIG_MAPS, config_body(wish))):
            name = body["metadata"]["name"]
            try:
                await self.api.apply(kind, body)
            except KubeAlreadyExists as error:
                raise _conflict(Reason.NAME_CONFLICT, f"{kind.kind} {name}: {error}") from error
            except KubeConflict as error:
                fields = ", ".join(field for field, _ in error.causes) or str(error)
                text = f"{kind.kind} {name}: somebody else has set {fields}; left as it is"
                raise _conflict(Reason.FIELD_CONFLICT, text) from error
            except (KubeForbidden, KubeInvalid) as error:
                raise InTheWay(refusal(error, f"{kind.kind} {name}")) from error

    async def _pod(self, wish: JobWish, gate: asyncio.Semaphore, effect: CreatePod | DeletePod | AdoptPod) -> None:
        async with gate:
            try:
                match effect:
                    case CreatePod():
                        await self._create(wish, effect)
                    case DeletePod():
                        call = self.api.delete(
                            PODS, effect.name, namespace=wish.namespace, uid=effect.uid, grace_s=effect.grace_s
                        )
                        await _unless_gone(call)
                    case AdoptPod():
                        await self._adopt(wish, effect.name, effect.uid)
            except (KubeForbidden, KubeInvalid) as error:
                name = wish.pod_name(effect.index) if isinstance(effect, CreatePod) else effect.name
                raise InTheWay(refusal(error, f"pod {name}")) from error

    async def _create(self, wish: JobWish, effect: CreatePod) -> None:
        body = pod_body(wish, effect.index, self.place, effect.avoid_nodes)
        try:
            await self.api.create(PODS, body)
        except KubeAlreadyExists:
            await self._met(wish, wish.pod_name(effect.index))

    async def _met(self, wish: JobWish, name: str) -> None:
        """A pod of this name is there: ours, nobody's, or somebody else's."""
        try:
            there = await self.api.get(PODS, name, namespace=wish.namespace)
        except KubeNotFound as gone:
            raise NotGoneYet(f"pod {name} has just gone", retry_after_s=0.5) from gone
        meta = there["metadata"]
        owner = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
        if owner is not None and owner.get("uid") == wish.uid:
            return  # made before we were killed, or the watch has not told yet
        if meta.get("deletionTimestamp"):
            raise NotGoneYet(f"pod {name} of somebody else is being deleted", retry_after_s=2.0)
        if owner is None and (meta.get("labels") or {}).get(LABEL_JOB) == wish.name:
            await self._adopt(wish, name, str(meta["uid"]))
            return
        whose = "nobody" if owner is None else f"{owner.get('kind')} {owner.get('name')}"
        raise _conflict(Reason.NAME_CONFLICT, f"a pod {name} that is not this job's is there; it belongs to {whose}")

    async def _adopt(self, wish: JobWish, name: str, uid: str) -> None:
        body = adoption_body(wish, uid)
        try:
            await self.api.patch(PODS, name, body, namespace=wish.namespace, strategic=True)
        except (KubeNotFound, KubeConflict) as error:
            raise NotGoneYet(f"pod {name} changed while it was adopted", retry_after_s=0.5) from error


def refusal(error: KubeForbidden | KubeInvalid, what: str) -> Problem:
    """The condition that a refusal makes."""
    if isinstance(error, KubeInvalid):
        causes = "; ".join(f"{field}: {message}" for field, message in error.causes[:3]) or str(error)
        return Problem(reason=Reason.SPEC_INVALID, message=f"{what}: {causes}", look_again_s=DENIED_AGAIN_S)
    if error.namespace_terminating:
        reason = Reason.NAMESPACE_TERMINATING
    elif error.quota_exceeded:
        reason = Reason.QUOTA_EXCEEDED
    else:
        reason = Reason.FORBIDDEN
    return Problem(reason=reason, message=f"{what}: {error}"[:1_000], look_again_s=DENIED_AGAIN_S)


def _conflict(reason: Reason, message: str) -> InTheWay:
    return InTheWay(Problem(reason=reason, message=message, look_again_s=DENIED_AGAIN_S))


async def _unless_gone(call: Any) -> None:
    """A deletion; what is gone already, or is another object by now, is not ours to delete."""
    try:
        await call
    except (KubeNotFound, KubeConflict) as error:
        log.debug("already_gone", error=str(error))
