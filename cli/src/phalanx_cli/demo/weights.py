"""Whether two runs ended with the same weights, bit for bit, from the digests that every rank wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsVerdict:
    """The answer and the sentence for it. `identical` is None when a run left no result: unknown is not yes."""

    identical: bool | None
    sentence: str
    digest: str = ""


def compare(unfailed: Path, failed: Path, *, world_size: int, steps: int) -> WeightsVerdict:
    """Compare the results of all ranks of both runs."""
    found: dict[str, set[str]] = {}
    for name, folder in (("unfailed run", unfailed), ("run with faults", failed)):
        try:
            results = [_read(folder, rank) for rank in range(world_size)]
        except (OSError, ValueError, KeyError) as error:
            return WeightsVerdict(identical=None, sentence=f"the {name} left no complete result: {error}")
        if any(done != steps for _, done in results):
            return WeightsVerdict(identical=None, sentence=f"the {name} did not reach step {steps}")
        found[name] = {digest for digest, _ in results}
        if len(found[name]) > 1:
            return WeightsVerdict(identical=False, sentence=f"the ranks of the {name} ended with different weights")
    ours, theirs = (digests.pop() for digests in found.values())
    if ours != theirs:
        return WeightsVerdict(identical=False, sentence=f"sha256 {theirs[:16]} instead of {ours[:16]}")
    return WeightsVerdict(identical=True, sentence=f"sha256 {ours[:16]} on all ranks of both runs", digest=ours)


def _read(folder: Path, rank: int) -> tuple[str, int]:
    result = json.loads((folder / f"rank_{rank}.json").read_text(encoding="utf-8"))
    return str(result["weights_sha256"]), int(result["steps"])
