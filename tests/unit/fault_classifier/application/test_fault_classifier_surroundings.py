"""What a job's own evidence does not tell: lines of its ranks, conditions of its nodes, and what befell other jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from judge_stage import Stage, death, story, victim

from fault_contracts.faults import Action, Attribution
from fault_contracts.findings import FindingsReported, LogFinding
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, Tier
from fault_contracts.recovery import GangFormed


def lines(
    stage: Stage, rank: int, kind: str, *, job: str = "job", version: int = 1, text: str = ""
) -> FindingsReported:
    found = LogFinding(
        kind=kind, role="cause", signature_id=f"test.{kind}", rank=rank, pid=7, stream="stderr",
        excerpt=text or f"{kind} happened", ordinal=0, observed_at=stage.clock.now(),
    )  # fmt: skip
    return FindingsReported(
        node_id=f"node-{rank // 2}", instance_id="i", job_id=job, topology_version=version, findings=(found,),
        reported_at=stage.clock.now(),
    )  # fmt: skip


def condition(stage: Stage, node: str, check: str, *, tier: Tier = Tier.PROBLEM) -> ConditionRaised:
    return ConditionRaised(
        condition_id=f"{node}-{check}", node_id=node, component=Component.NIC, component_id="mlx5_0", check=check,
        tier=tier, reason=f"{check} is bad", raised_at=stage.clock.now(),
    )  # fmt: skip


def test_lines_alone_give_no_verdict_and_are_kept_for_the_death_that_they_explain() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(lines(stage, 3, "cuda_oom"), "l")
        await stage.clock.sleep(30)
        assert stage.words() == []
        await stage.say(victim(stage, 0), "v")
        await stage.clock.sleep(5)
        verdict = stage.verdicts()[-1]
        assert (verdict.attribution, verdict.cause, verdict.culprit.rank) == (Attribution.USER, "cuda_oom", 3)
        assert "cuda_oom happened" in verdict.reasons[0].sentence
        assert verdict.reasons[0].weight is not None

    story(told)


def test_a_verdict_that_ends_the_job_is_provisional_until_it_is_quiet() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        begun = stage.clock.now()
        await stage.say(lines(stage, 3, "cuda_oom"), "l")
        await stage.say(death(stage, 3, signal=None), "d")
        await stage.clock.sleep(5)
        first, *_, last = stage.words()
        assert first.provisional
        assert not last.provisional
        assert last.action is Action.DONT_RETRY_NOTIFY_USER
        assert timedelta(0) <= first.classified_at - begun < timedelta(milliseconds=100)
        assert timedelta(milliseconds=250) < last.classified_at - begun < timedelta(seconds=2)

    story(told)


@pytest.mark.parametrize("before", [True, False])
def test_a_condition_of_a_node_explains_whether_it_comes_before_or_after_the_fault(before: bool) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        told_first = condition(stage, "node-0", "nic_link_event")
        if before:
            await stage.say(told_first, "c")
        await stage.say(victim(stage, 0), "v")
        await stage.clock.sleep(0.1)
        if not before:
            await stage.say(told_first, "c")
        await stage.clock.sleep(5)
        assert "node-0-nic_link_event" in [each.evidence_id for each in (await stage.generation()).surroundings]

    story(told)


def test_conditions_of_other_nodes_and_of_long_ago_and_of_the_past_are_left_out() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(condition(stage, "node-0", "old_one"), "o")
        await stage.say(condition(stage, "node-0", "cured_one"), "c")
        cured = ConditionCleared(
            condition_id="node-0-cured_one", node_id="node-0", check="cured_one", reason="good again",
            cleared_at=stage.clock.now(),
        )  # fmt: skip
        await stage.say(cured, "cc")
        await stage.clock.sleep(3_600)
        await stage.say(condition(stage, "node-7", "elsewhere"), "e")
        await stage.say(death(stage, 0), "d")
        await stage.clock.sleep(5)
        assert (await stage.generation()).surroundings == ()

    story(told)


def test_other_jobs_that_break_of_the_same_at_the_time_are_told() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        for job in ("one", "two", "three", "four"):
            await stage.say(victim(stage, 0, job=job), job)
            await stage.clock.sleep(4)
        found = {each.kind: each.captures for each in (await stage.generation("four")).surroundings}
        assert found["same_cause_in_other_jobs"]["jobs"] == "3"
        assert found["other_jobs_failed_here"]["jobs"] == "3"

    story(told)


def test_the_nodes_of_a_job_are_remembered() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        formed = GangFormed(
            job_id="job", topology_version=1, nodes=("a", "b"), world_size=2, formed_at=stage.clock.now()
        )
        await stage.say(formed, "f")
        await stage.clock.sleep(1)
        assert (await stage.job()).nodes == ("a", "b")

    story(told)
