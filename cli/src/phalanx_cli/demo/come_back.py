"""A node that comes back with its broken GPU: its agent must be told why it gets no ranks."""

from __future__ import annotations

import asyncio
import json

from phalanx_cli.demo.pace import set_pace
from phalanx_cli.demo.stage import START_LIMIT_S, Job, Stage
from phalanx_cli.demo.watch import NotSeen
from service_kit.errors import TransientError
from service_kit.ports import Bus

ANSWER_LIMIT_S = 20.0
"""A planner that was cut off from the bus for a moment has to come back before it answers again."""
TRY_LIMIT_S = 2.0
ASK_AGAIN_S = 0.25
WAITING_STEP_S = 0.2
"""Pace of the job while an agent starts, which takes as long as the cores make it: 600 steps last two minutes."""


async def come_back(stage: Stage, job: Job, node_id: str) -> None:
    """Start the agent of a node anew whose GPU is broken, and ask the planner what its agent asks.

    Raises:
        NotSeen: it did not report, nobody answered, or nobody held it back.
    """
    story, agents, work = job.story, job.agents, stage.folder.work(job.act)
    before = story.nodes[node_id].agent_pid
    # A job that is over has no members, and nobody answers for it.
    set_pace(work, WAITING_STEP_S)
    await agents.stop(node_id)
    agents.start(node_id)
    await stage.watch.until(
        lambda: story.nodes[node_id].agent_pid != before or story.ended is not None,
        f"the agent of {node_id} again",
        limit_s=START_LIMIT_S,
    )
    if story.ended is not None:
        raise NotSeen(f"the job ended before {node_id} was back")
    reason = await why_held(stage.bus, job_id=story.job_id, node_id=node_id)
    set_pace(work, None)
    stage.screen.line("held", f"{node_id} came back: {reason}")


async def why_held(bus: Bus, *, job_id: str, node_id: str) -> str:
    """What the planner says to a node that it holds back. Only silence is asked again: an answer is an answer.

    Raises:
        NotSeen: nobody answered within the limit, or the node was not held back.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + ANSWER_LIMIT_S
    question, silence = json.dumps({"node_id": node_id}).encode(), ""
    while loop.time() < deadline_s:
        try:
            answer = await bus.ask(what="admission", key=job_id, body=question, timeout_s=TRY_LIMIT_S)
            silence = "no planner serves this job"
        except TransientError as error:
            answer, silence = None, str(error)
        if answer:
            reason = str(json.loads(answer).get("reason", ""))
            if not reason.startswith(f"{node_id} is held back"):
                raise NotSeen(f"{node_id} came back and was not held back: {reason or 'it was admitted'}")
            return reason
        await asyncio.sleep(ASK_AGAIN_S)
    raise NotSeen(f"{node_id} came back, and nobody said for {ANSWER_LIMIT_S:g} s whether it is held back: {silence}")
