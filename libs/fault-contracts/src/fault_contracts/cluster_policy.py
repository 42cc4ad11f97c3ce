"""What the operator of a cluster wants done about its nodes: ladder, gate, probation, breaker, pool.

Without a ladder nothing is done to a node by itself, as without a policy at all: persons quarantine, drain and release.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fault_contracts.payload import FilePath, Name, Payload
from fault_contracts.remediation import Rung

_HOUR_S = 3_600.0
_DAY_S = 86_400.0
Span = Annotated[float, Field(gt=0, le=365 * _DAY_S)]
"""At most a year: longer is a mistaken unit."""


class LadderPolicy(Payload):
    """What is tried, and how long each step may take."""

    rungs: tuple[Rung, ...] = Field(default=tuple(Rung), min_length=1, max_length=3)
    """What may be tried. A verdict names the first; each failure, and each fault on probation, costs the next."""
    orders_max: int = Field(default=3, ge=1, le=100)
    """Tries of one order that was refused for now (the host role is busy, the machine is in another boot), and of a
    validation that was not answered. Then the next rung. A reset or a reboot that is not answered is not repeated."""
    reset_gpu_s: Span = 300.0
    reboot_node_s: Span = 1_800.0
    """Reboots of large GPU machines take half an hour."""
    retry_s: Span = 30.0
    """After a refusal that may pass (busy, another boot)."""
    suspect_s: Span = _HOUR_S
    """How long a node that may not be taken stays suspect before the matter is dropped."""
    evict_s: Span | None = None
    """A job that still has ranks on a node that was taken is stopped by plan after its next checkpoint, at the latest
    after so long. None: it goes on to its next stop."""
    rounds_min: int = Field(default=3, ge=0, le=20)
    """Clean validations in a row before it works again. 0: no gate. Three, because one finds about 70 % of defects and
    10 % of returns may fail again within a week: `phalanx simulate` reaches that with three, not with two."""
    validate_s: Span = 1_200.0
    """For one validation, and for the node to say that nothing is wrong with it any more."""
    strikes_max: float = Field(default=3.0, ge=1, le=100)
    """Stories of one node that count at once; with so many it is replaced, whatever the verdict asks for."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        order = list(Rung)
        if list(self.rungs) != sorted(set(self.rungs), key=order.index):
            raise ValueError("rungs must rise and none may stand twice: reset_gpu, reboot_node, replace_node")
        return self


class ProbationPolicy(Payload):
    """How long a node that came back is watched, and how its past fades."""

    length_s: Span = 7 * _DAY_S
    """Of the first; each story that still counts makes it longer by as much, up to `factor_max` times."""
    factor_max: float = Field(default=4.0, ge=1, le=100)
    half_life_s: Span = 14 * _DAY_S
    """After it, a story counts half."""


class BreakerPolicy(Payload):
    """How many nodes may be taken at once and in a while. Beyond it none is, until a trial went well."""

    share_max: float = Field(default=0.1, gt=0, le=1)
    """Of the known nodes, out of use at a time. One is always allowed, else a small cluster could repair nothing."""
    nodes_max: int = Field(default=20, ge=1, le=100_000)
    """Taken within `window_s`."""
    window_s: Span = _HOUR_S
    open_s: Span = 1_800.0
    """From opening until one node is taken on trial."""


class PoolPolicy(Payload):
    """Where nodes come from, and where they go."""

    kind: Literal["none", "static", "kubernetes", "simulated"] = "none"
    """none: a person replaces nodes; static: names in a file; kubernetes: the operator gives nodes back, and new ones
    come by themselves; simulated: a cloud that exists only for trials."""
    file: FilePath = ""
    """static: one node a line, `#` begins a comment. Read at each request: it may grow while the planner runs."""
    labels: dict[Name, Name] = Field(default_factory=dict, max_length=32)
    """What a node must be; told to the pool with each request."""
    wait_s: Span = 4 * _HOUR_S
    """For a node to be delivered and to tell what is in it."""
    requests_max: int = Field(default=5, ge=1, le=100)
    """Nodes asked for in place of one: some are refused for what is built in."""
    delay_s: float = Field(default=60.0, ge=0, le=_DAY_S)
    """simulated: from the request to the node."""
    failures_every: int = Field(default=0, ge=0, le=1_000)
    """simulated: each n-th request fails; 0: none."""
    returns_every: int = Field(default=0, ge=0, le=1_000)
    """simulated: each n-th node is one that was given back, under a new name; 0: none."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "static" and not self.file:
            raise ValueError("a static pool needs a file with the names of its nodes")
        if self.kind != "static" and self.file:
            raise ValueError(f"a pool of kind {self.kind} reads no file")
        return self


class JobCeilings(Payload):
    """What no job's own policy may exceed. A job that asks for more gets this, and its reasons say so."""

    restarts_max: int | None = Field(default=None, ge=0, le=100_000)
    """Restarts inside the job's window, over all causes."""
    capacity_wait_s: Span | None = None
    """How long a hole may wait for a node, and with it all other nodes of the job."""


class ClusterPolicy(Payload):
    """The cluster's policy. Every field may be left out."""

    dry_run: bool = False
    """True: nothing is taken and nothing ordered; what would have been is in the journal."""
    ladder: LadderPolicy | None = None
    """None: nothing is done to a node by itself."""
    probation: ProbationPolicy = ProbationPolicy()
    breaker: BreakerPolicy = BreakerPolicy()
    pool: PoolPolicy = PoolPolicy()
    jobs: JobCeilings = JobCeilings()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.pool.kind != "none" and (self.ladder is None or Rung.REPLACE_NODE not in self.ladder.rungs):
            raise ValueError("a pool is of no use without a ladder that has the rung replace_node")
        return self
