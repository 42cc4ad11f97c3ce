"""Messages of a re-executable block. Each names the topology_version it speaks of, so that none is obeyed too late.

Worker to agent: block_entered, block_faulted, at_barrier, block_finished. Agent to worker: abort, go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker_link.message_fields import PATH_LENGTH_MAX, Fields

CALLSTACK_LENGTH_MAX = 24 * 1024
"""Characters of a traceback in a frame; the innermost frames are at its end. Escaped as JSON it fits 64 KB."""
FAULT_MESSAGE_LENGTH_MAX = 4 * 1024
FAULT_TYPE_LENGTH_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEntered:
    """The rank runs its block for this version. The first one announces that the script can restart in place."""

    topology_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFaulted:
    """An exception left the user's function; the rank cleans up and will come to the barrier."""

    topology_version: int
    error_type: str
    message: str
    callstack: str
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AtBarrier:
    """The rank has left the block of this version and waits. `healthy` False: it should get a new process."""

    topology_version: int
    healthy: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFinished:
    """The user's function returned: from now on this process cannot be called back."""

    topology_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Leave the block of this version, or of an older one, and come to the barrier."""

    topology_version: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """The barrier opens: run the block as this version, with this environment and from this checkpoint."""

    topology_version: int
    env: Mapping[str, str] = field(default_factory=dict)
    checkpoint_step: int | None = None
    checkpoint_path: str = ""


BlockMessage = BlockEntered | BlockFaulted | AtBarrier | BlockFinished
BlockOrder = Abort | Go

BLOCK_TYPE_NAMES: dict[Any, str] = {
    BlockEntered: "block_entered",
    BlockFaulted: "block_faulted",
    AtBarrier: "at_barrier",
    BlockFinished: "block_finished",
    Abort: "abort",
    Go: "go",
}

BLOCK_READERS: dict[str, Callable[[Fields], BlockMessage | BlockOrder]] = {
    "block_entered": lambda f: BlockEntered(topology_version=f.integer("topology_version")),
    "block_faulted": lambda f: BlockFaulted(
        topology_version=f.integer("topology_version"),
        error_type=f.text("error_type", length_max=FAULT_TYPE_LENGTH_MAX),
        message=f.text("message", length_max=FAULT_MESSAGE_LENGTH_MAX),
        callstack=f.text("callstack", "", length_max=CALLSTACK_LENGTH_MAX),
        step=f.optional("step"),
    ),
    "at_barrier": lambda f: AtBarrier(
        topology_version=f.integer("topology_version"), healthy=f.flag("healthy"), reason=f.text("reason", "")
    ),
    "block_finished": lambda f: BlockFinished(topology_version=f.integer("topology_version")),
    "abort": lambda f: Abort(topology_version=f.integer("topology_version"), reason=f.text("reason", "")),
    "go": lambda f: Go(
        topology_version=f.integer("topology_version"),
        env=f.texts("env"),
        checkpoint_step=f.optional("checkpoint_step"),
        checkpoint_path=f.text("checkpoint_path", "", length_max=PATH_LENGTH_MAX),
    ),
}
