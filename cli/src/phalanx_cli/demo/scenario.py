"""The demo's jobs and what can be injected into them. What has to come of it is in truths.py."""

from __future__ import annotations

from enum import StrEnum

NODES = 2
RANKS_PER_NODE = 2
WORLD_SIZE = NODES * RANKS_PER_NODE
LOSS_RULE = "loss-is-not-finite"
"""Of log_rules.yaml, which the first job runs with."""


class Act(StrEnum):
    """The demo's jobs. Each fault belongs to one of them."""

    RESTARTS = "restarts"
    """New processes for all ranks, from the last whole checkpoint."""
    IN_PLACE = "in-place"
    """The same training as a re-executable block: processes stay where they can."""
    HARDWARE = "hardware"
    """Each node has GPUs that a fake driver library makes up, and a host role that watches them."""
    POLICY = "policy"
    """A job with a recovery policy: what is done when a restart alone does not help."""
    BUG = "bug"
    """What no restart helps."""
    NODES = "nodes"
    """No job at all: what is done about a node that fails again and again."""


class Fault(StrEnum):
    """What can be injected, in the order in which the demo does it."""

    KILL_RANK = "kill-rank"
    STOP_RANK = "stop-rank"
    NAN_LOSS = "nan-loss"
    KILL_NODE = "kill-node"
    EXCEPTION = "exception"
    TWO_AT_ONCE = "two-at-once"
    KILL_PLANNER = "kill-planner"
    RAISE_IN_PLACE = "raise-in-place"
    KILL_IN_PLACE = "kill-in-place"
    XID_31 = "xid-31"
    XID_79 = "xid-79"
    HOT_GPU = "hot-gpu"
    POISONED = "poisoned-checkpoint"
    NO_SPARE = "no-spare"
    BUG = "bug"
    THIRD_STRIKE = "third-strike"
