"""A rule that is broken on purpose is found within two hundred seeds, by a checker that is there for it."""

import pytest
import sim_mutants
import sim_run
import sim_seeds

SEEDS = 200


@pytest.mark.parametrize("mutant", sim_mutants.MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_rule_is_found(mutant: sim_mutants.Mutant) -> None:
    with sim_mutants.mutated(mutant):
        for seed in range(SEEDS):
            names = {each.name for each in sim_run.run(sim_seeds.scenario_of(seed), rest_s=120.0).violations}
            if names:
                assert names & set(mutant.breaks), f"seed {seed} breaks {names}"
                return
    pytest.fail(f"{SEEDS} seeds, and nobody noticed")
