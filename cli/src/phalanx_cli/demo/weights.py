"""Whether two runs ended with the same weights, bit for bit, from the digests that every rank wrote."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

_RESULT = "result_"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsVerdict:
    """The answer and the sentence for it. `identical` is None when a run left no result: unknown is not yes."""

    job: str
    identical: bool | None
    sentence: str
    digest: str = ""


def write_result(work: Path, weights: bytes, *, rank: int, step: int) -> str:
    """Every rank writes its own, so that ranks that drifted apart would show. Returns the digest."""
    path = _path(work, rank, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(weights).hexdigest()
    partial = path.with_suffix(f".partial{os.getpid()}")
    partial.write_text(json.dumps({"rank": rank, "step": step, "weights_sha256": digest}), encoding="utf-8")
    partial.rename(path)
    return digest


def last_step(work: Path) -> int:
    """The newest step that a run left results of; 0 when there are none."""
    return max((int(folder.name.removeprefix(_RESULT)) for folder in work.glob(f"{_RESULT}*")), default=0)


def compare(unfailed: Path, failed: Path, *, job: str, world_size: int, step: int) -> WeightsVerdict:
    """Compare the results of all ranks of both runs at a step; the folders are those that the runs worked in."""
    found: dict[str, set[str]] = {}
    for name, work in (("unfailed run", unfailed), ("run with faults", failed)):
        try:
            found[name] = {_read(work, rank, step) for rank in range(world_size)}
        except (OSError, ValueError, KeyError) as error:
            sentence = f"the {name} left no complete result of step {step}: {error}"
            return WeightsVerdict(job=job, identical=None, sentence=sentence)
        if len(found[name]) > 1:
            sentence = f"the ranks of the {name} have different weights at step {step}"
            return WeightsVerdict(job=job, identical=False, sentence=sentence)
    ours, theirs = (digests.pop() for digests in found.values())
    if ours != theirs:
        sentence = f"sha256 {theirs[:16]} instead of {ours[:16]} at step {step}"
        return WeightsVerdict(job=job, identical=False, sentence=sentence)
    sentence = f"sha256 {ours[:16]} on all ranks of both runs at step {step}"
    return WeightsVerdict(job=job, identical=True, sentence=sentence, digest=ours)


def _path(work: Path, rank: int, step: int) -> Path:
    return work / f"{_RESULT}{step}" / f"rank_{rank}.json"


def _read(work: Path, rank: int, step: int) -> str:
    return str(json.loads(_path(work, rank, step).read_text(encoding="utf-8"))["weights_sha256"])
