"""How fast a job's ranks go and whether they have trained enough: two files that the demo writes and every step reads.

What the demo waits for takes as long as the machine makes it: a job that ran on at its own pace could be over before.
"""

from __future__ import annotations

from pathlib import Path

_PACE = "pace_step_s"
_ENOUGH = "enough"


def set_pace(work: Path, step_s: float | None) -> None:
    """The shortest duration of a step from now on; None: the one that the job was started with."""
    if step_s is None:
        (work / _PACE).unlink(missing_ok=True)
        return
    work.mkdir(parents=True, exist_ok=True)
    partial = work / f"{_PACE}.partial"
    partial.write_text(f"{step_s!r}", encoding="ascii")
    partial.rename(work / _PACE)


def step_s_wanted(work: Path, otherwise_s: float) -> float:
    """The shortest duration of a step."""
    try:
        return float((work / _PACE).read_text(encoding="ascii"))
    except FileNotFoundError:
        return otherwise_s


def say_enough(work: Path) -> None:
    """Let the job end at its next checkpoint."""
    work.mkdir(parents=True, exist_ok=True)
    (work / _ENOUGH).touch()


def enough_wanted(work: Path) -> bool:
    """Whether the job may end. Ranks read this at different moments, so they have to agree on the answer."""
    return (work / _ENOUGH).exists()
