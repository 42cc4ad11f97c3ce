"""`phalanx demo --list`: what can be injected, job by job, and what has to come of it."""

from __future__ import annotations

from phalanx_cli.demo.scenario import Act
from phalanx_cli.demo.truths import TRUTHS, truth_words

JOBS = {
    Act.RESTARTS: "one job on two nodes; every rank gets a new process after each fault",
    Act.IN_PLACE: "a job that restarts in the processes that are there",
    Act.HARDWARE: "a job on nodes with GPUs that a fake driver library makes up",
    Act.POLICY: "a job with a recovery policy",
    Act.BUG: "a job that no restart helps",
    Act.NODES: "no job: nodes with such GPUs, and a planner with a ladder for all nodes",
}


def listing() -> str:
    """The whole list, for a terminal or a file."""
    width = max(len(fault) for fault in TRUTHS)
    lines = []
    for act in Act:
        lines.append(f"{JOBS[act]}:")
        for fault, truth in TRUTHS.items():
            if truth.act is act:
                lines.append(f"  {fault:<{width}}  {truth.done}")
                lines.append(f"  {'':<{width}}  verdict: {truth_words(fault)}")
    lines.append("phalanx demo --faults NAME,NAME plays some of them; without --faults all are played.")
    return "\n".join(lines) + "\n"
