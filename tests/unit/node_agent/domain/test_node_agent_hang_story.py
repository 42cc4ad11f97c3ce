"""Whole jobs on a virtual clock: 100,000 healthy steps raise no alarm, and a stopped rank is found within a second."""

from __future__ import annotations

import copy
import random

import pytest
from gang_story import Agent, Pause, Scene

from node_agent.domain.hang_verdict import HangKind
from node_agent.domain.step_times import TrainingPhase

STEPS = 100_000


def every(steps: int, duration_s: float, scene: Scene, declared: TrainingPhase | None = None) -> list[Pause]:
    return [
        Pause(after_step=step, duration_s=duration_s, scene=scene, declared=declared)
        for step in range(steps, STEPS + 1, steps)
    ]


def test_a_hundred_thousand_healthy_steps() -> None:
    """A first step of 20 s, checkpoints of 10 s (declared, and by rank 0 alone without a word), evaluations of 10 s
    that nobody declares, and single pauses at odd places of every kind that can be told from a hang.
    """
    chance = random.Random(4)
    odd = [
        Pause(after_step=chance.randrange(100, STEPS), duration_s=10.0, scene=scene)
        for scene in (Scene.ALL_EVALUATE, Scene.ALL_SLEEP, Scene.RANK_0_SAVES, Scene.RANK_0_SLEEPS, Scene.COMPUTE)
        for _ in range(5)
    ]
    agent = Agent()
    agent.train(
        STEPS,
        [
            *every(1_000, 10.0, Scene.RANK_0_SLEEPS, TrainingPhase.CHECKPOINT),
            *every(3_700, 10.0, Scene.RANK_0_SAVES),
            *every(5_300, 10.0, Scene.ALL_EVALUATE),
            *odd,
        ],
    )
    assert agent.watch.last_step == STEPS
    assert agent.hangs == []
    undeclared = STEPS // 3_700 + STEPS // 5_300 + len(odd)
    assert agent.dumps <= 6 * undeclared, "stacks are taken in pauses only, and a few times each"


def test_a_regular_pause_costs_stack_dumps_twice_and_then_no_more() -> None:
    agent = Agent()
    agent.train(3_000, [pause for pause in every(500, 10.0, Scene.RANK_0_SLEEPS) if pause.after_step <= 1_000])
    learning = agent.dumps
    assert learning > 0
    agent = Agent()
    agent.train(10_000, [pause for pause in every(500, 10.0, Scene.RANK_0_SLEEPS) if pause.after_step <= 10_000])
    assert (agent.hangs, agent.dumps) == ([], learning)


TRAINED = Agent()
TRAINED.train(2_950, [pause for pause in every(1_000, 10.0, Scene.RANK_0_SAVES) if pause.after_step < 2_950])
"""A pause is due after step 3,000."""


@pytest.mark.parametrize("seed", range(40))
def test_a_stopped_rank_is_found_within_a_second(seed: int) -> None:
    """At any moment of a step, and right where a learned pause is due."""
    chance = random.Random(seed)
    agent = copy.deepcopy(TRAINED)
    for step in range(2_951, chance.choice((2_952, 2_981, 3_001, 3_101))):
        agent.finish_step(step)
        # The first shifts the rest against the looks at /proc.
        agent.pass_time(chance.uniform(0.0, 0.5) if step == 2_951 else 0.05, Scene.COMPUTE)
    agent.now_s += chance.random() * 0.05
    stopped_s = agent.now_s
    verdict = agent.pass_time(60.0, Scene.RANK_2_STOPPED)
    assert verdict is not None
    assert (verdict.kind, verdict.suspects) == (HangKind.STOPPED, (2,))
    assert agent.now_s - stopped_s < 1.0


@pytest.mark.parametrize("declared", [None, TrainingPhase.CHECKPOINT])
def test_a_rank_stopped_during_the_first_step_or_a_declared_phase_is_found_as_fast(
    declared: TrainingPhase | None,
) -> None:
    agent = Agent()
    if declared is not None:
        agent = copy.deepcopy(TRAINED)
        agent.train(50, [Pause(after_step=50, duration_s=5.0, scene=Scene.RANK_2_STOPPED, declared=declared)])
    else:
        agent.pass_time(5.0, Scene.RANK_2_STOPPED)
    assert [hang.suspects for hang in agent.hangs] == [(2,)]


def test_a_dead_locked_rank_is_found_soon_after_the_patience_for_idle_ranks() -> None:
    agent = copy.deepcopy(TRAINED)
    began_s = agent.now_s
    verdict = agent.pass_time(600.0, Scene.RANK_2_DEAD_LOCKED)
    assert verdict is not None
    assert (verdict.kind, verdict.rule_id, verdict.suspects) == (HangKind.HUNG, "hang_outside", (2,))
    assert agent.now_s - began_s < 16.0


@pytest.mark.parametrize("scene", [Scene.RANK_0_SAVES, Scene.ALL_EVALUATE])
def test_what_was_recognised_may_last_but_not_for_ever(scene: Scene) -> None:
    agent = copy.deepcopy(TRAINED)
    assert agent.pass_time(250.0, scene) is None
    verdict = agent.pass_time(3_600.0, scene)
    assert verdict is not None
    assert agent.now_s - agent.watch.since_s <= 1_801.0


def test_a_checkpoint_that_was_recognised_and_then_got_stuck_is_found_at_the_limit_of_checkpoints() -> None:
    agent = Agent()
    agent.train(100)
    began_s = agent.now_s
    verdict = agent.pass_time(3_600.0, Scene.RANK_0_STUCK_SAVING)
    assert verdict is not None
    assert (verdict.rule_id, verdict.suspects) == ("hang_outside", (0,))
    assert 299.0 < agent.now_s - began_s < 301.0
