"""What was seen of one rank when the gang did not move, and what that says about this rank alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from node_agent.domain.stack_groups import RankStack, StackPlace

BUSY_CPU_SHARE = 0.05
"""Share of one core from which a process works. Measured: a rank that waits in a gloo collective uses 0.00 to 0.01,
one in an evaluation of a small model on a shared core 0.19. Helper threads of a hung process stay below 0.03."""


class ProcessState(StrEnum):
    """The state letter of /proc/PID/stat (proc_pid_stat(5))."""

    RUNNING = "R"
    SLEEPING = "S"
    BLOCKED = "D"
    """Uninterruptible sleep: in the kernel, for a disk, a network file system or a device driver."""
    STOPPED = "T"
    """By SIGSTOP or the like."""
    TRACED = "t"
    """Held by a debugger."""
    ZOMBIE = "Z"
    UNKNOWN = "?"

    @classmethod
    def of(cls, letter: str) -> ProcessState:
        """The state of a letter; what is rare or new (X, I, P) is unknown."""
        try:
            return cls(letter)
        except ValueError:
            return cls.UNKNOWN


class Whereabouts(StrEnum):
    """What a rank seems to do, from its own evidence."""

    WAITING = "waiting"
    """In a collective: it waits for others, or all reduce together."""
    WORKING = "working"
    """Not in a collective, and it uses CPU, does I/O, or its stack changes."""
    IDLE = "idle"
    """Not in a collective, and two looks found it at the same place without use of CPU."""
    UNSEEN = "unseen"
    """Too little is known: no stack, or one look only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEvidence:
    """Evidence of one rank. None is unknown, everywhere.

    Attributes:
        state_age_s: for how long the process has been in `state`, as far as it was seen.
        cpu_share: of one core, over the time between two looks; all threads.
        io_bytes: read and written between two looks.
        stack: None when no dump came, or did not show the main thread.
        moved: whether the stack changed between two dumps; None with fewer than two.
    """

    state: ProcessState = ProcessState.UNKNOWN
    state_age_s: float = 0.0
    cpu_share: float | None = None
    io_bytes: int | None = None
    stack: RankStack | None = None
    moved: bool | None = None

    @property
    def is_busy(self) -> bool | None:
        """Whether it works; None when neither is known."""
        if self.moved or self.io_bytes:
            return True
        if self.cpu_share is not None:
            return self.cpu_share >= BUSY_CPU_SHARE
        return None

    @property
    def whereabouts(self) -> Whereabouts:
        """What the rank seems to do."""
        if self.stack is None:
            return Whereabouts.WORKING if self.is_busy else Whereabouts.UNSEEN
        match self.stack.place:
            case StackPlace.COLLECTIVE:
                return Whereabouts.WAITING
            case StackPlace.DEVICE:
                # The host thread spins while it waits for the GPU: its use of CPU says nothing.
                return Whereabouts.WORKING if self.moved else Whereabouts.WAITING
            case StackPlace.BACKWARD:
                return Whereabouts.WORKING if self.is_busy else Whereabouts.WAITING
            case StackPlace.DATA_LOADER | StackPlace.CHECKPOINT | StackPlace.EVALUATION | StackPlace.OTHER:
                if self.is_busy:
                    return Whereabouts.WORKING
                is_still = self.moved is False and self.cpu_share is not None
                return Whereabouts.IDLE if is_still else Whereabouts.UNSEEN
