"""Ranks that live and cannot go on, as their agent sees them: hung, stopped, condemned by a log rule."""

from __future__ import annotations

from pydantic import Field

from fault_contracts.payload import At, Excerpt, FilePath, Name, Payload, Sentence


class Suspect(Payload):
    """One rank that is to blame, as far as its node can tell."""

    rank: int = Field(ge=0)
    local_rank: int = Field(ge=0)
    pid: int = Field(ge=1)
    evidence: Excerpt = ""
    """What was seen of it: the place of its stack, its process state, the line that a rule matched."""
    place: str = Field(default="", max_length=64)
    """Where its stack stands, as in StalledRank; empty: no stack is known."""


class RanksFaulted(Payload):
    """The gang is broken although no process ended. Evidence was saved in `evidence_path` before this was sent."""

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    check: Name
    """What was looked at: process_stopped | process_blocked | hang | log_rule."""
    rule_id: Name
    """Which rule decided, e.g. hang_outside, LogFault_loss."""
    suspects: tuple[Suspect, ...] = Field(default=(), max_length=1_024)
    """Ranks of this node whose process is to be ended; empty when nobody can be named (a collective of all)."""
    reason: Sentence
    evidence_path: FilePath = ""
    """Folder on the node with stacks, last lines and process states; empty when nothing could be saved."""
    step: int | None = None
    """The last step that all ranks of this node finished; None is unknown."""
    checkpoint_step: int | None = None
    """The step this generation was started from; None without a checkpoint."""
    silent_s: float | None = Field(default=None, ge=0)
    """Since the last sign of progress, where that is what was judged."""
    ran_s: float = Field(ge=0)
    observed_at: At


class StalledRank(Payload):
    """What a node sees of one of its ranks while the gang does not move. Words of node_agent.domain, open enums."""

    rank: int = Field(ge=0)
    state: str = Field(default="?", max_length=4)
    """Letter of /proc/PID/stat."""
    state_age_s: float = Field(default=0.0, ge=0)
    cpu_share: float | None = Field(default=None, ge=0)
    io_bytes: int | None = Field(default=None, ge=0)
    moved: bool | None = None
    """Whether its stack changed between the last two dumps."""
    place: str = Field(default="", max_length=64)
    """collective, backward, device, data_loader, checkpoint, evaluation, other; empty: no stack is known."""
    activity: str = Field(default="", max_length=64)
    operation: str = Field(default="", max_length=256)
    """The collective, or the user's function."""
    where: str = Field(default="", max_length=256)


class StallSeen(Payload):
    """A node is late and sees no hang of its own: what its ranks do, for the other agents of the gang. Key: job_id.

    Repeated every few seconds while it lasts, over core NATS: a lost one is replaced by the next.
    """

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    ranks: tuple[StalledRank, ...] = Field(default=(), max_length=1_024)
    reason: Sentence
    """How late, and by which limit."""
    silent_s: float = Field(ge=0)
