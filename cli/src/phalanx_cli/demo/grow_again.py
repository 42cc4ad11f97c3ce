"""A gang that lost a node and has none in reserve: it has to go on smaller, and take in the node that joins later."""

from __future__ import annotations

from phalanx_cli.demo.come_back import WAITING_STEP_S
from phalanx_cli.demo.judgement import SUCCEEDED
from phalanx_cli.demo.pace import set_pace
from phalanx_cli.demo.scenario import NODES
from phalanx_cli.demo.stage import RECOVERY_LIMIT_S, START_LIMIT_S, Job, Stage
from phalanx_cli.demo.watch import NotSeen

LATE_NODE = "node-late"


async def join_later(stage: Stage, job: Job, incidents_before: int) -> None:
    """See the smaller gang train, start another node, and see the whole gang train again.

    Raises:
        NotSeen: the job ended, or it did not shrink or grow within the limits.
    """
    story, work = job.story, stage.folder.work(job.act)
    # The job must not be over before the late node is there.
    set_pace(work, WAITING_STEP_S)
    await stage.watch.until(
        lambda: (len(story.incidents) > incidents_before and story.training) or story.ended is not None,
        "a smaller gang that trains",
        limit_s=RECOVERY_LIMIT_S,
    )
    _still_there(job)
    stage.screen.line("shrunk", f"{len(story.rank_table)} of {NODES} nodes train; {LATE_NODE} is started")
    job.agents.start(LATE_NODE)
    job.expected[LATE_NODE] = SUCCEEDED
    await stage.watch.until(
        lambda: LATE_NODE in story.nodes or story.ended is not None,
        f"the agent of {LATE_NODE}",
        limit_s=START_LIMIT_S,
    )
    await stage.watch.until(
        lambda: (len(story.rank_table) == NODES and story.training) or story.ended is not None,
        "the whole gang again",
        limit_s=RECOVERY_LIMIT_S,
    )
    _still_there(job)
    set_pace(work, None)
    stage.screen.line("grown", f"{len(story.rank_table)} nodes train again: {', '.join(story.rank_table)}")


def _still_there(job: Job) -> None:
    if job.story.ended is not None:
        raise NotSeen("the job ended before it had its full size again")
