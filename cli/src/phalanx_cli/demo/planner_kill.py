"""The planner dies while it recovers a job: supervised like all services, it has to come back and finish the work."""

from __future__ import annotations

import os
import signal

from phalanx_cli.demo.inject import InjectionFailed
from phalanx_cli.demo.stage import RECOVERY_LIMIT_S, Job, Stage

PLANNER = "recovery-planner"


async def kill_planner(stage: Stage, job: Job, incidents_before: int) -> None:
    """Kill -9 as soon as the incident is known on the bus, and see that it ends in another life of the planner.

    Raises:
        NotSeen: no incident, or it did not end.
        InjectionFailed: it was over before the planner could be killed.
    """
    story, stack = job.story, stage.stack
    assert stack is not None, "not chosen where the services run elsewhere"
    await stage.watch.until(
        lambda: len(story.incidents) > incidents_before or story.ended is not None,
        "the incident in which the planner is killed",
        limit_s=RECOVERY_LIMIT_S,
    )
    incident = story.open_incident
    if incident is None:
        raise InjectionFailed("the incident was over before the planner could be killed")
    before = stack.member(PLANNER).pid
    os.kill(before, signal.SIGKILL)
    where = "all ranks were told to start again" if incident.plans else "all ranks were told to stop"
    stage.screen.line("inject", f"kill -9 of {PLANNER} (pid {before}), after {where}")
    await stage.watch.until(
        lambda: incident.closed is not None or story.ended is not None,
        "the end of the incident in which the planner was killed",
        limit_s=RECOVERY_LIMIT_S,
    )
    after = stack.member(PLANNER).pid
    if after == before:
        job.problems.append(f"{PLANNER} was killed, and no other process of it finished the recovery")
        return
    stage.screen.line("planner", f"another process, pid {after}, read the record and finished what the first one began")
