"""The scene in which the planner is killed: when it strikes, and what it asks for afterwards."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fault_contracts.faults import Attribution
from fault_contracts.payload import Reason
from fault_contracts.recovery import IncidentClosed, IncidentOpened, PhaseTimes
from phalanx_cli.demo.inject import InjectionFailed
from phalanx_cli.demo.planner_kill import PLANNER, kill_planner
from phalanx_cli.demo.story import JobStory

AT = datetime(2026, 1, 1, tzinfo=UTC)
WHY = Reason(rule_id="r", sentence="because")
OPENED = IncidentOpened(
    incident_id="i", job_id="j", topology_version=1, trigger=WHY, fault_observed_at=AT, opened_at=AT
)
CLOSED = IncidentClosed(
    incident_id="i", job_id="j", outcome="recovered", topology_version=2, attempts=1, attribution=Attribution.PLATFORM,
    phases=PhaseTimes(), reason=WHY, closed_at=AT,
)  # fmt: skip


def scene(planner: subprocess.Popen[bytes], *, comes_back_as: int | None) -> tuple[Any, Any]:
    """A stage whose planner is a sleeping process, and a job whose incident is open."""
    story = JobStory("j", ranks_per_node=2)
    story.apply(OPENED)
    member = SimpleNamespace(pid=planner.pid)

    async def until(condition: Callable[[], bool], _what: str, *, limit_s: float) -> None:
        if condition():
            return
        assert planner.wait(limit_s) == -9, "the planner dies before the incident ends"
        member.pid = comes_back_as or member.pid
        story.apply(CLOSED)
        assert condition()

    stage = SimpleNamespace(
        watch=SimpleNamespace(until=until),
        stack=SimpleNamespace(member=lambda name: member if name == PLANNER else None),
        screen=SimpleNamespace(line=lambda *_: None),
    )
    return stage, SimpleNamespace(story=story, problems=[])


@pytest.mark.parametrize(("comes_back_as", "problems"), [(1, 0), (None, 1)])
def test_the_planner_dies_in_the_incident_and_another_life_has_to_end_it(
    comes_back_as: int | None, problems: int
) -> None:
    planner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        stage, job = scene(planner, comes_back_as=comes_back_as)
        asyncio.run(kill_planner(cast("Any", stage), cast("Any", job), 0))
    finally:
        planner.kill()
        planner.wait()
    assert len(job.problems) == problems


def test_an_incident_that_is_over_already_is_said() -> None:
    planner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        stage, job = scene(planner, comes_back_as=1)
        job.story.apply(CLOSED)
        with pytest.raises(InjectionFailed, match="over before the planner"):
            asyncio.run(kill_planner(cast("Any", stage), cast("Any", job), 0))
        assert planner.poll() is None
    finally:
        planner.kill()
        planner.wait()
