"""`make sim`: simulate many seeds, or replay one with a readable trace. docs/simulation.md.

Exit codes: 0 no promise was broken, 1 one was (its shortest scenario is printed), 2 the arguments make no sense.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "simulation"))

import sim_run  # noqa: E402 - the harness lives with the tests
import sim_seeds  # noqa: E402
import sim_shrink  # noqa: E402
import sim_story  # noqa: E402
from sim_scenario import Scenario  # noqa: E402

CHUNK = 25
SHOWN_MAX = 5
"""Failing seeds that are shrunk and printed; the others are only counted."""


def broken_in(seeds: range) -> list[tuple[int, str]]:
    """The seeds that break a promise, with the first one."""
    found = []
    for seed in seeds:
        result = sim_run.run(sim_seeds.scenario_of(seed))
        if result.violations:
            found.append((seed, str(result.violations[0])))
    return found


def sweep(first: int, count: int, jobs: int) -> int:
    """Simulate `count` seeds in `jobs` processes."""
    began_s = time.perf_counter()
    chunks = [range(start, min(start + CHUNK, first + count)) for start in range(first, first + count, CHUNK)]
    found: list[tuple[int, str]] = []
    done = 0
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for chunk, broken in zip(chunks, pool.map(broken_in, chunks), strict=True):
            found += broken
            done += len(chunk)
            if done % 500 < CHUNK:
                spent_s = time.perf_counter() - began_s
                print(f"{done} of {count} seeds, {len(found)} broken, {spent_s:.0f} s", flush=True)
    took_s = time.perf_counter() - began_s
    print(f"{count} seeds from {first} on in {took_s:.0f} s ({jobs} processes): {len(found)} broke a promise")
    for seed, said in found[:SHOWN_MAX]:
        print(f"\nseed {seed}: {said}\nthe shortest scenario found (a story for tests/simulation/stories):")
        print(shortest(sim_seeds.scenario_of(seed)))
        print(f"replay: make sim SEED={seed}")
    return 1 if found else 0


def shortest(scenario: Scenario) -> str:
    """The text of the smallest scenario that breaks the same promise."""
    name = sim_run.run(scenario).violations[0].name

    def breaks(candidate: Scenario) -> bool:
        return any(each.name == name for each in sim_run.run(candidate).violations)

    return sim_story.write(sim_shrink.shrink(scenario, breaks))


def replay(scenario: Scenario) -> int:
    """One scenario with everything that happens."""
    print(sim_story.write(scenario))
    result = sim_run.run(scenario, trace=lambda line: print(line[:400]))
    print(f"\n{result.messages} messages in {result.took_s:.1f} virtual seconds")
    for each in result.violations:
        print(f"BROKEN at {each}")
    if not result.violations:
        print("every promise was kept")
    return 1 if result.violations else 0


def crowd(agents: int, seed: int) -> int:
    """One run with thousands of agents."""
    began_s = time.perf_counter()
    scenario = sim_seeds.crowd_of(agents, seed)
    result = sim_run.run(scenario)
    count = sum(len(job.agents) for job in scenario.jobs)
    print(
        f"{count} agents in {len(scenario.jobs)} jobs, {len(scenario.faults)} faults: {result.messages} messages in"
        f" {result.took_s:.0f} virtual seconds, simulated in {time.perf_counter() - began_s:.0f} s"
    )
    for each in result.violations:
        print(f"BROKEN at {each}")
    return 1 if result.violations else 0


def main() -> int:
    """Read the arguments and do one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, help="replay this one, with a trace")
    parser.add_argument("--agents", type=int, help="one big run: so many agents in jobs of fifty nodes")
    parser.add_argument("--story", type=Path, help="replay a story file, with a trace")
    options = parser.parse_args()
    if options.seeds < 1 or options.jobs < 1:
        parser.error("--seeds and --jobs must be at least 1")
    if options.story is not None:
        try:
            return replay(sim_story.read(options.story.read_text(encoding="utf-8")))
        except (OSError, sim_story.StoryError) as error:
            parser.error(f"{options.story}: {error}")
    if options.agents is not None:
        return crowd(options.agents, options.seed or 0)
    if options.seed is not None:
        return replay(sim_seeds.scenario_of(options.seed))
    return sweep(options.first, options.seeds, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
