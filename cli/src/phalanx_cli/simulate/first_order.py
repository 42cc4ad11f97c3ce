"""ETTR by the formula of Meta's RSC paper, to check the events against: E = (1 - f (u + dt / 2)) / (1 + w / dt)."""

from __future__ import annotations


def expected_ettr(*, faults_per_s: float, down_s: float, checkpoint_s: float, block_s: float) -> float:
    """For faults that come singly.

    Args:
        faults_per_s: that stop the job.
        down_s: from the fault until the job trains again.
        checkpoint_s: training between two checkpoints; half of it is lost on average.
        block_s: for which a checkpoint holds training up.
    """
    return (1 - faults_per_s * (down_s + checkpoint_s / 2)) / (1 + block_s / checkpoint_s)
