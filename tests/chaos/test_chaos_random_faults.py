"""Random faults at random and at unlucky moments, one after another, on real processes: the job always trains again.

Promises: no wedge, no orphan process, no lost step. `make check` runs a few trials; `make chaos` over 200 recoveries.
CHAOS_SEED and CHAOS_RECOVERIES choose; a failure names its seed, its trial, and the file with the whole story.
"""

import os
from pathlib import Path

import pytest
from chaos_rig import Rig
from chaos_schedule import trials

RECOVERIES = int(os.environ.get("CHAOS_RECOVERIES", "6"))
"""Of each mode."""
SEED = int(os.environ.get("CHAOS_SEED", "130"))
"""The same in every `make check`, one whose first six trials have every kind and every moment; `make chaos` takes
another one each time."""
TRIAL_LIMIT_S = 60.0
"""On average, with the import of torch by the agents of new nodes on busy cores. A wedge is found by its own limit."""

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio, pytest.mark.timeout(600 + RECOVERIES * TRIAL_LIMIT_S)]


@pytest.mark.parametrize("mode", ["new_process", "in_place"])
async def test_the_job_comes_back_from_every_fault_with_every_step(tmp_path: Path, mode: str) -> None:
    print(f"make chaos SEED={SEED} MODE={mode}", flush=True)
    trial = None
    try:
        async with Rig(tmp_path, block=mode == "in_place") as rig:
            await rig.train()
            for trial in trials(SEED, 10 * RECOVERIES):
                await rig.play(trial)
                print(f"{trial}; version {rig.ledger.version}, {rig.bus.recovered} recoveries", flush=True)
                if rig.bus.recovered >= RECOVERIES:
                    break
            await rig.finish()
            assert rig.bus.recovered >= RECOVERIES
    except BaseException as error:
        error.add_note(f"again: make chaos SEED={SEED} MODE={mode} ({trial or 'at the start'})")
        raise
