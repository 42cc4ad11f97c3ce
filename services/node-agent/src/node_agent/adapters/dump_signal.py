"""Whether a worker can be asked for its stacks now without harm. Whoever sends the signal asks here first."""

from __future__ import annotations

import os
from pathlib import Path

from node_agent.application.ports import WorkerHandle
from worker_link.linux import STACK_DUMP_SIGNAL
from worker_link.process_tree import catches_signal

DESCRIPTORS_LOOKED_AT_MAX = 4_096
"""The stacks file is one of the first that a worker has; 4 us each."""


def answers_dump_signal(handle: WorkerHandle, stacks: Path) -> bool:
    """Whether the process has a handler for the dump signal, and its stacks file open.

    To a process without a handler (still importing, or after exec) the signal would be deadly. One that closed all its
    descriptors may have a checkpoint at that number by now, and the dump would go into it.
    """
    return (
        handle.stacks_on_signal
        and catches_signal(handle.pid, STACK_DUMP_SIGNAL)
        and _has_open(handle.pid, str(stacks.resolve()))
    )


def _has_open(pid: int, path: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:  # the process has ended
        return False
    return any(_target(f"{folder}/{number}") == path for number in numbers[:DESCRIPTORS_LOOKED_AT_MAX])


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # closed between listing and reading
        return ""
