"""What runs between two executions of a block: unblock, clear away, the user's hooks, the health check."""

from __future__ import annotations

import threading
from collections.abc import Callable

from worker_link.block_fault import shown
from worker_link.torch_abort import destroy_process_groups

Hook = Callable[[], object]


class Hooks:
    """What the user gave, and that `abort` runs once a restart, in whichever thread comes first."""

    def __init__(self, abort: Hook, finalise: Hook | None, health_check: Hook | None) -> None:
        self._abort = abort
        self._finalise = finalise
        self._health_check = health_check
        self._lock = threading.Lock()
        self._aborted_version = -1
        self._problem = ""

    def abort_once(self, version: int) -> None:
        """Unblock whoever waits for a peer; the second call for a version does nothing."""
        with self._lock:
            if self._aborted_version < version:
                self._aborted_version = version
                self._run_abort()

    def abort_again(self, version: int) -> None:
        """The exception was swallowed: the thread may wait in another collective by now."""
        with self._lock:
            self._aborted_version = max(self._aborted_version, version)
            self._run_abort()

    def _run_abort(self) -> None:
        try:
            self._abort()
        except Exception as error:  # noqa: BLE001  the user's hook; the rank is then unhealthy
            self._problem = f"the abort hook raised {shown(error)}"

    def clean(self) -> tuple[str, bool]:
        """Clear up in the training thread.

        Returns:
            Why this process should be replaced (empty: it need not be), and whether there was a process group.
        """
        problem, self._problem = self._problem, ""
        had_group = False
        try:
            had_group = destroy_process_groups()
        except Exception as error:  # noqa: BLE001  whatever torch says about a broken group
            problem = problem or f"the process groups could not be destroyed: {shown(error)}"
        for name, hook in (("finalise", self._finalise), ("health check", self._health_check)):
            if hook is None or problem:
                continue
            try:
                if hook() is False:
                    problem = f"the {name} returned False"
            except Exception as error:  # noqa: BLE001  the user's hook; the rank is then unhealthy
                problem = f"the {name} raised {shown(error)}"
        return problem, had_group
