"""Answer an agent that asks whether it fits its job, so that a person sees a wrong flag at once and not in a log."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fault_contracts.agent import JobSpec
from recovery_planner.application.node_standings import StandingBook
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.membership import misfit
from recovery_planner.domain.node_fit import ADMITTED
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Subscription
from training_topology.identity import NodeId

RUNS_ELSEWHERE = (Phase.STARTING, Phase.RUNNING)
"""A newcomer of such a gang has no rank for now, and no command that says so: it was started before."""

log = get_logger(__name__)


class AnswerAdmission:
    """A GangWatcher that serves `ask(what="admission", key=job_id)` for each job that is not over."""

    def __init__(self, *, bus: Bus, standings: StandingBook) -> None:
        self._bus = bus
        self._standings = standings
        self._gangs: dict[str, Gang] = {}
        self._serving: dict[str, asyncio.Task[Subscription | None]] = {}
        self._ends: set[asyncio.Task[None]] = set()

    def observe(self, gang: Gang) -> None:
        """Begin to answer for a new job."""
        self._gangs[gang.job_id] = gang
        if gang.job_id not in self._serving:
            self._serving[gang.job_id] = asyncio.create_task(self._serve(gang.job_id), name=f"admit {gang.job_id}")

    def forget(self, job_id: str) -> None:
        """Stop answering."""
        self._gangs.pop(job_id, None)
        serving = self._serving.pop(job_id, None)
        if serving is not None:
            end = asyncio.create_task(_end(serving))
            self._ends.add(end)
            end.add_done_callback(self._ends.discard)

    async def stop(self) -> None:
        """Stop answering for all jobs."""
        for job_id in list(self._serving):
            self.forget(job_id)
        await asyncio.gather(*self._ends, return_exceptions=True)

    async def _serve(self, job_id: str) -> Subscription | None:
        async def reply(body: bytes) -> bytes:
            try:
                await self._standings.know(_node_of(body))
            except TransientError as error:
                # Its report is decided on only when the standing is known; here it costs a sentence.
                log.warning("standing_not_known", job_id=job_id, error=str(error))
            return self.answer(job_id, body)

        try:
            return await self._bus.answer(what="admission", key=job_id, reply=reply)
        except TransientError as error:
            # An agent that gets no answer goes on; the refusal still stands in the record and in the log.
            log.warning("admission_not_served", job_id=job_id, error=str(error))
            self._serving.pop(job_id, None)
            return None

    def answer(self, job_id: str, body: bytes) -> bytes:
        """JSON {"admitted", "reason"} for a question {"node_id", "spec"}."""
        gang = self._gangs.get(job_id)
        if gang is None:
            return _said(admitted=True, reason="")  # not known here yet: its report is on its way
        try:
            question: Any = json.loads(body or b"{}")
            node_id = str(question.get("node_id", ""))
            reason = gang.refused.get(node_id, "")
            if "spec" in question:
                reason = misfit(gang, JobSpec.model_validate(question["spec"]))
        except (ValueError, AttributeError, TypeError) as error:
            return _said(admitted=False, reason=f"the question is not understood: {error}")
        if reason:
            return _said(admitted=False, reason=f"job {job_id} was started with other options: {reason}")
        member = gang.members.get(node_id)
        held = member.held if member is not None else self._standings.fits.get(node_id, ADMITTED).held
        if held:
            # Not refused for good: it stands by, and is taken when its standing is ok again.
            return _said(admitted=True, reason=f"{node_id} is held back: {held}")
        table = gang.table
        if gang.phase in RUNS_ELSEWHERE and table.row_of(NodeId(node_id)) is None:
            where = f"version {table.topology_version} runs on {table.nnodes} other nodes"
            return _said(admitted=True, reason=f"standing by as a spare ({where})")
        return _said(admitted=True, reason="")


def _node_of(body: bytes) -> str:
    """Who asks; empty when the question cannot be read, which is answered further on."""
    try:
        return str(json.loads(body or b"{}").get("node_id", ""))
    except (ValueError, AttributeError):
        return ""


async def _end(serving: asyncio.Task[Subscription | None]) -> None:
    subscription = await serving
    if subscription is not None:
        await subscription.stop()


def _said(*, admitted: bool, reason: str) -> bytes:
    return json.dumps({"admitted": admitted, "reason": reason[:2_048]}).encode()
