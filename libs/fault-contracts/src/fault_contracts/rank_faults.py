"""Ranks that live and cannot go on, as their agent sees them: hung, stopped, condemned by a log rule. Key: node_id."""

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
