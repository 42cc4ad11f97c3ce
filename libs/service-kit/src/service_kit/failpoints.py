"""Named places where a test may end this process with SIGKILL, to prove that every gap between two steps is survivable.

Off by default and then one dictionary look-up. Turned on by PHALANX_FAILPOINT="name:n": the process kills itself the
n-th time it reaches `name` (n counts from 1; without `:n` it is 1).
"""

from __future__ import annotations

import os
import re
import signal

_SPEC = re.compile(r"([a-z0-9_]{1,64})(?::([1-9][0-9]{0,5}))?")


class Failpoints:
    """The one failpoint of this process, or none.

    Args:
        spec: value of PHALANX_FAILPOINT; None or empty is off.

    Raises:
        ValueError: a spec that is not `name` or `name:n`; a typo must not turn a crash test into a pass.
    """

    def __init__(self, spec: str | None = None) -> None:
        self._name = ""
        self._left = 0
        if spec:
            match = _SPEC.fullmatch(spec)
            if match is None:
                raise ValueError(f"failpoint {spec[:80]!r} is not name or name:n")
            self._name = match.group(1)
            self._left = int(match.group(2) or 1)

    def reach(self, name: str) -> None:
        """Say that the program is at `name`; does not return when that is the armed place and its count is up."""
        if name != self._name:
            return
        self._left -= 1
        if self._left == 0:
            # SIGKILL, not an exception: no handler, no flush and no finally may run, as in a real kill or power loss.
            os.kill(os.getpid(), signal.SIGKILL)
