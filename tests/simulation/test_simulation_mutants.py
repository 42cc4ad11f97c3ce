"""A rule that is broken on purpose is found within two hundred seeds, by a checker that is there for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sim_mutants
import sim_run
import sim_seeds
import sim_story
from sim_scenario import Scenario

SEEDS = 200
STORIES = Path(__file__).parent / "stories"


@pytest.mark.parametrize("mutant", sim_mutants.MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_rule_is_found(mutant: sim_mutants.Mutant) -> None:
    with sim_mutants.mutated(mutant):
        for scenario in _scenarios(mutant.story):
            names = {each.name for each in sim_run.run(scenario, rest_s=120.0).violations}
            if names:
                assert names & set(mutant.breaks), f"seed {scenario.seed} breaks {names}"
                return
    pytest.fail(f"{SEEDS} seeds, and nobody noticed")


def _scenarios(story: str) -> Iterator[Scenario]:
    if story:
        yield sim_story.read((STORIES / f"{story}.txt").read_text())
    else:
        yield from map(sim_seeds.scenario_of, range(SEEDS))
