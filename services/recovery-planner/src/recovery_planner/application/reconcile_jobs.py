"""The operator of TrainingJobs: whatever changes, the job is looked at, decided about, and the decision carried out.

Level-triggered: nothing that a watch tells is acted on by itself; it only says which job to look at. One owner of every
retry: this loop, with a wait for each job that doubles, so that a job that cannot be done costs a call now and then.
"""

from __future__ import annotations

import asyncio

from recovery_planner.application.carry_out_job import DENIED_AGAIN_S, InTheWay, JobHand
from recovery_planner.application.due_keys import DueKeys
from recovery_planner.application.kube_mirror import Key, KubeMirror, key_of
from recovery_planner.application.kube_ports import PODS, TRAINING_JOBS, KubeConflict, KubeNotFound, Obj
from recovery_planner.application.look_at_job import JobEye
from recovery_planner.domain.kube_effects import JobCondition, WriteStatus
from recovery_planner.domain.kube_job_halts import stalled, unstalled
from recovery_planner.domain.kube_job_seen import Seen
from recovery_planner.domain.kube_job_spec import JobWish, read_wish
from recovery_planner.domain.kube_job_status import read_memory
from recovery_planner.domain.kube_jobs import reconcile
from recovery_planner.domain.kube_pods import LABEL_JOB
from service_kit.cancellation import cancel_all
from service_kit.errors import ServiceError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

WORKERS = 8
"""Jobs in hand at once."""
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.5, 120.0
TOLD_AGAIN_S = 5.0
"""A job that something stands in the way of is not looked at more often, whatever its pods do."""
NOT_FILLED_AGAIN_S = 0.2
LOOK_AGAIN_LEAST_S = 0.05
"""Whatever was decided: a mistake about a time must not keep a core busy."""

log = get_logger(__name__)


class JobOperator:
    """The loop."""

    def __init__(self, *, eye: JobEye, hand: JobHand, clock: Clock) -> None:
        self._eye = eye
        self._hand = hand
        self._clock = clock
        self._due: DueKeys[Key] = DueKeys()
        self._waits: dict[Key, float] = {}
        self._not_before: dict[Key, float] = {}
        self._reasons: dict[Key, str] = {}
        self._jobs = KubeMirror(eye.api, clock, TRAINING_JOBS, told=self._job_changed)
        self._pods = KubeMirror(eye.api, clock, PODS, labels=LABEL_JOB, told=self._pod_changed, group_of=_job_key)

    def heard_of(self, job_id: str) -> None:
        """The planner has said something about a job; its name on the bus is ours with a piece of the uid."""
        namespace, slash, rest = job_id.partition("/")
        name, dot, _ = rest.rpartition(".")
        if slash and dot and self._jobs.get((namespace, name)) is not None:
            self._due.add((namespace, name))

    async def run(self) -> None:
        """Until cancelled."""
        tasks = [
            asyncio.create_task(self._jobs.run(), name="watch-jobs"),
            asyncio.create_task(self._pods.run(), name="watch-pods"),
            *(asyncio.create_task(self._work(), name=f"operator-{number}") for number in range(WORKERS)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._due.close()
            await cancel_all(tasks)

    async def _work(self) -> None:
        while True:
            key = await self._due.take()
            try:
                await self._tend(key)
            finally:
                self._due.done(key)

    async def _tend(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None:
            for kept in (self._waits, self._reasons, self._not_before):
                kept.pop(key, None)
            return
        if not self._pods.filled:
            # Without the pods that are there every seat looks empty.
            self._due.add_in(key, NOT_FILLED_AGAIN_S)
            return
        left_s = self._not_before.get(key, 0.0) - self._clock.monotonic_s()
        if left_s > 0:
            self._due.add_in(key, left_s)
            return
        try:
            await self._tend_one(key, job)
            self._waits.pop(key, None)
            self._not_before.pop(key, None)
        except InTheWay as found:
            self._back_off(key, found.problem.look_again_s)
        except (KubeConflict, KubeNotFound) as error:
            log.debug("job_changed", job=key, error=str(error))
            self._back_off(key, 0.0)
        except TransientError as error:
            wait_s = self._back_off(key, error.retry_after_s or 0.0)
            log.warning("job_not_tended", job=key, error=str(error), retry_in_s=wait_s)
        except ServiceError as error:
            wait_s = self._back_off(key, DENIED_AGAIN_S)
            log.error("job_not_tended", job=key, error=str(error), retry_in_s=wait_s)

    async def _tend_one(self, key: Key, job: Obj) -> None:
        wish = read_wish(job)
        seen = await self._eye.look(wish, job, self._pods.group(key))
        decision = reconcile(wish, read_memory(job.get("status")), seen, self._clock.now())
        if self._reasons.get(key) != decision.rule_id:
            self._reasons[key] = decision.rule_id
            log.info("job_decided", job=wish.job_id, rule=decision.rule_id, sentence=decision.sentence)
        try:
            job = await self._hand.carry_out(wish, job, decision.effects)
        except InTheWay as found:
            await self._say_what_is_in_the_way(wish, seen, found)
            raise
        self._note(job)
        if seen.problem is None and not wish.deleting:
            await self._say_that_nothing_is(wish, job, seen)
        if decision.look_at is not None:
            wait_s = (decision.look_at - self._clock.now()).total_seconds()
            self._due.add_in(key, max(wait_s, LOOK_AGAIN_LEAST_S))

    async def _say_what_is_in_the_way(self, wish: JobWish, seen: Seen, found: InTheWay) -> None:
        """On the job as it stands now: the status that was decided has been written before."""
        job = await self._hand.api.get(TRAINING_JOBS, wish.name, namespace=wish.namespace)
        now = Seen(status=job.get("status"), pods=seen.pods, gang=seen.gang, problem=found.problem)
        said = stalled(wish, read_memory(job.get("status")), now, self._clock.now())
        log.warning("job_stalled", job=wish.job_id, reason=found.problem.reason, message=found.problem.message)
        self._note(await self._hand.carry_out(wish, job, said.effects))

    async def _say_that_nothing_is(self, wish: JobWish, job: Obj, seen: Seen) -> None:
        memory = read_memory(job.get("status"))
        if memory.holds(JobCondition.STALLED):
            now = Seen(status=job.get("status"), pods=seen.pods, gang=seen.gang)
            said = unstalled(wish, memory, now, self._clock.now())
            writes = [effect for effect in said.effects if isinstance(effect, WriteStatus)]
            self._note(await self._hand.carry_out(wish, job, writes))

    def _note(self, job: Obj) -> None:
        if not job["metadata"].get("deletionTimestamp"):
            self._jobs.note(job)

    def _back_off(self, key: Key, least_s: float) -> float:
        """When to look again; what the watches tell until then is not looked at more often than every few seconds."""
        wait_s = max(self._waits.get(key, BACKOFF_FIRST_S), least_s)
        self._waits[key] = min(self._waits.get(key, BACKOFF_FIRST_S) * 2, BACKOFF_MAX_S)
        self._not_before[key] = self._clock.monotonic_s() + min(wait_s, TOLD_AGAIN_S)
        self._due.add_in(key, wait_s)
        return wait_s

    def _job_changed(self, job: Obj) -> None:
        self._due.add(key_of(job))

    def _pod_changed(self, pod: Obj) -> None:
        key = _job_key(pod)
        if self._jobs.get(key) is not None:
            self._due.add(key)


def _job_key(pod: Obj) -> Key:
    meta = pod["metadata"]
    return str(meta.get("namespace", "")), str(meta.get("labels", {}).get(LABEL_JOB, ""))
