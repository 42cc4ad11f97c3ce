"""What a job wants done about its faults: levels, budgets, elastic bounds, checkpoints. Part of JobSpec.

Without a policy a job behaves as JobSpec's own fields say. YAML, aliases of other systems and ceilings of the cluster
are read before it comes to this; here are the values, and what contradicts itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from fault_contracts.faults import Attribution
from fault_contracts.payload import Name, Payload
from fault_contracts.recovery_level import RecoveryLevel

RULES_MAX = 64
Seconds = Annotated[float, Field(ge=0, le=2_592_000)]
"""At most 30 days: longer is a mistaken unit."""


class PolicyMode(StrEnum):
    """Whether the planner acts on more than the death of a rank."""

    ACT = "act"
    OBSERVE = "observe"
    """Ranks that die are restarted, all of them, as torchrun does; nothing else is done, and what would have been done
    is recorded."""


class Retry(StrEnum):
    """Whether a fault of a rule is tried again at all."""

    NEVER = "never"
    CONFIRM = "confirm"
    """Once: the same fault again ends the job."""
    ALWAYS = "always"
    """Within the budgets."""


class Backoff(Payload):
    """How long to wait before a restart: first_s, then factor times as long each time, at most max_s."""

    first_s: Seconds = 0.0
    factor: float = Field(default=2.0, ge=1.0, le=10.0)
    max_s: Seconds = 300.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.first_s > self.max_s:
            raise ValueError(f"backoff first_s {self.first_s:g} is above max_s {self.max_s:g}")
        return self


class CausePolicy(Payload):
    """What holds for faults of one kind. The first rule that matches decides; fields left out are the job's.

    `cause` is a slug of docs/causes.md, or ends in `*`; empty is any.
    """

    attribution: Attribution | None = None
    cause: Name | None = None
    level: RecoveryLevel | None = None
    """The least that is tried: in_process < process < job; failed gives the job up at once."""
    level_max: RecoveryLevel | None = None
    """How far it may be escalated before the job is given up."""
    restarts_max: int | None = Field(default=None, ge=0, le=500)
    """Restarts for faults of this rule inside its window, beside the job's own budget."""
    window_s: Seconds | None = None
    backoff: Backoff | None = None
    retry: Retry = Retry.ALWAYS

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        order = list(RecoveryLevel)
        if self.level and self.level_max and order.index(self.level) > order.index(self.level_max):
            raise ValueError(f"level {self.level} is above level_max {self.level_max}")
        if self.attribution is None and self.cause is None:
            raise ValueError(
                "a rule needs attribution, cause or both; what holds for all faults stands beside the rules"
            )
        return self


class ElasticPolicy(Payload):
    """How far a gang may shrink when no node comes in time, and when it grows again.

    Either `nnodes_allowed`, or whole replicas of `replica_nodes` nodes down to `nnodes_min`.
    """

    nnodes_min: int = Field(ge=1, le=100_000)
    replica_nodes: int = Field(default=1, ge=1, le=100_000)
    nnodes_allowed: tuple[int, ...] = Field(default=(), max_length=1_024)
    wait_s: Seconds = 30.0
    """A hole waits so long for a spare before the gang shrinks."""
    snooze_s: Seconds = 600.0
    """After a start, no regrow for so long."""
    regrow: bool = True

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(allowed < self.nnodes_min for allowed in self.nnodes_allowed):
            raise ValueError(f"nnodes_allowed has a value below nnodes_min {self.nnodes_min}")
        return self


class CheckpointPolicy(Payload):
    """When a checkpoint is taken for poisoned, and an older one is tried."""

    step_back_max: int = Field(default=0, ge=0, le=16)
    """Checkpoints that may be stepped over in one run of the job; 0: none."""
    same_fault_within_steps: int = Field(default=3, ge=0, le=1_000_000)
    """The same fault again within so many steps of the load speaks against the checkpoint."""
    same_fault_within_s: Seconds = 600.0
    """As much, where steps are not reported."""


class RepeatOffenderPolicy(Payload):
    """A node that broke this job so often is not taken again."""

    faults: int = Field(default=2, ge=1, le=1_000)
    window_s: Seconds = 86_400.0


class RecoveryPolicy(Payload):
    """A job's policy. Every field may be left out."""

    mode: PolicyMode = PolicyMode.ACT
    restarts_max: int | None = Field(default=None, ge=0, le=100_000)
    """Restarts inside `window_s`, over all causes; None: JobSpec's own."""
    window_s: Seconds | None = None
    process_restarts_before_job: int | None = Field(default=None, ge=1, le=100_000)
    """So many restarts below level job inside the window; the next is of level job."""
    job_restarts_max: int | None = Field(default=None, ge=0, le=100_000)
    """Restarts of level job inside the window; the next fault ends the job."""
    backoff: Backoff | None = None
    quiet_s: Seconds = 3_600.0
    """After so long without a fault the next one is answered from the lowest level again."""
    confirming_retries: int = Field(default=0, ge=0, le=1)
    """Restarts that a fault of the user gets, to confirm it."""
    causes: tuple[CausePolicy, ...] = Field(default=(), max_length=RULES_MAX)
    elastic: ElasticPolicy | None = None
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    repeat_offender: RepeatOffenderPolicy | None = None
    capacity_wait_s: Seconds | None = None
    """How long a hole waits for a node before the job fails; None: the planner's setting."""
    start_deadline_s: Seconds | None = None
    fault_deadline_s: Seconds | None = None
    """From the fault to the resumed training; beyond it the job fails."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.job_restarts_max is not None and self.process_restarts_before_job is None:
            raise ValueError(
                "job_restarts_max needs process_restarts_before_job: nothing leads to level job without it"
            )
        if self.window_s == 0:
            raise ValueError("window_s is 0: no restart would ever be counted; leave it out or say how long")
        for seconds, name in ((self.start_deadline_s, "start_deadline_s"), (self.fault_deadline_s, "fault_deadline_s")):
            if seconds == 0:
                raise ValueError(f"{name} is 0: no restart could ever be in time")
        return self
