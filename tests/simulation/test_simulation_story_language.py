"""The language of scenarios: what is written is read back, and what is not understood is named."""

from dataclasses import replace

import pytest
import sim_seeds
import sim_story
from sim_scenario import Expectation, Fault, JobPlan, Scenario
from sim_shrink import shrink


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_what_is_written_is_read_back(first: int) -> None:
    for seed in range(first, first + 100):
        scenario = sim_seeds.scenario_of(seed)
        scenario = replace(scenario, expectations=(Expectation(job="a", what="seats", words=("a-n0", "a-n1")),))
        assert sim_story.read(sim_story.write(scenario)) == scenario


def test_a_policy_is_kept_as_it_is() -> None:
    policy = '{"restarts_max": 2}'
    scenario = Scenario(jobs=(JobPlan(name="a", policy=policy),))
    assert sim_story.read(sim_story.write(scenario)) == scenario


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job a: nodes 2\nat 3s tickle rank 1 of a", "line 2"),
        ("at noon kill rank 1 of a with signal 9", "line 1"),
        ("at 3s kill rank 1", "kill rank wants"),
        ("job a: wheels 4", "wheels"),
        ("once upon a time", "begins with"),
    ],
)
def test_what_is_not_understood_is_named(text: str, said: str) -> None:
    with pytest.raises(sim_story.StoryError, match=said):
        sim_story.read(text)


def test_shrinking_leaves_the_faults_that_matter() -> None:
    faults = tuple(Fault(at_s=float(at), verb="join", target="a", number=at) for at in range(9))

    def breaks(scenario: Scenario) -> bool:
        return {2, 7} <= {int(fault.number) for fault in scenario.faults}

    scenario = Scenario(jobs=(JobPlan(name="a", spares=2), JobPlan(name="b")), planners=2, faults=faults)
    small = shrink(scenario, breaks)
    assert [fault.number for fault in small.faults] == [2, 7]
    assert (len(small.jobs), small.planners) == (1, 1)


def test_shrinking_stops_when_its_tries_are_used_up() -> None:
    tried = []
    faults = tuple(Fault(at_s=1.0, verb="join", target="a") for _ in range(50))
    shrink(Scenario(jobs=(JobPlan(name="a"),), faults=faults), lambda one: bool(tried.append(one)), tries_max=7)
    assert len(tried) == 7
