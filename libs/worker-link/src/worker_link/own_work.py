"""How long this rank itself worked in a step, without the time in which it waited for other ranks.

Ranks that train together finish a step together, so the length of a step shows no slow rank: the others wait for it.
What does is the time before they meet. A script tells it in one of three ways, each a line:

    with link.work.waiting():       # around whatever waits for other ranks; may be used several times in a step
        dist.all_reduce(gradient)
    link.work.done()                # before the first wait: what follows is not counted
    link.step(step, busy_s=0.042)   # measured by the script itself, for example with CUDA events

Time is taken on the CPU. Work that a GPU does behind the script's back is in it only when the script waits for the GPU
(`torch.cuda.synchronize()`, `loss.item()`) before it waits for other ranks.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

LAST_GRADIENTS = 4
"""Backward ends about with the gradients of the parameters that were used first. Of these few the latest counts, as one
may be frozen or used late; each costs a call into Python a step."""


def checked_busy_s(busy_s: float | None) -> float | None:
    """A duration as a script gave it.

    Raises:
        ValueError: it is none.
    """
    if busy_s is not None and not (math.isfinite(busy_s) and busy_s >= 0):
        raise ValueError(f"busy_s {busy_s} is not a number of seconds, 0 or more")
    return None if busy_s is None else float(busy_s)


class OwnWork:
    """A stopwatch for one rank. A step is measured once the step before has ended, so the first one is unknown."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._waited_s = 0.0
        self._done_s: float | None = None
        self._used = False

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what waits for other ranks; that time is not counted."""
        self._used = True
        began_s = time.monotonic()
        try:
            yield
        finally:
            self._waited_s += time.monotonic() - began_s

    def done(self) -> None:
        """This rank's own work of the step is done; of several calls in a step the last counts."""
        self._done_s = time.monotonic() - self._waited_s

    def begin(self, now_s: float) -> None:
        """A step begins."""
        self._begun_s, self._waited_s, self._done_s, self._used = now_s, 0.0, None, False

    def finish(self, now_s: float) -> float | None:
        """A step ends and the next begins; returns its own work, or None when the script did not tell it."""
        begun_s, done_s, used = self._begun_s, self._done_s, self._used
        waited_s = self._waited_s
        self.begin(now_s)
        if begun_s is None:
            return None
        if done_s is not None:
            return max(0.0, done_s - begun_s)
        return max(0.0, now_s - begun_s - waited_s) if used else None

    def reset(self) -> None:
        """What was measured belongs to a generation that is over."""
        self.begin(0.0)
        self._begun_s = None


def watch_gradients(work: OwnWork, model: Any) -> bool:
    """Let the backward pass of a data-parallel model call `done`: gradients are there, and the wait begins.

    For DistributedDataParallel, or a loop that reduces gradients itself, on CPUs. Not for models whose forward waits
    for other ranks (sharded, pipelined): their own work would have waits in it. On a GPU the gradients are only ordered
    at that moment, not computed: nothing is watched then.

    Returns:
        Whether it watches; if not, a warning says why.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad][:LAST_GRADIENTS]
    problem = ""
    if not parameters:
        problem = "the model has no parameter that takes a gradient"
    elif any(parameter.device.type != "cpu" for parameter in parameters):
        problem = "the gradients are computed on a device, behind this thread's back; pass busy_s to step() instead"
    elif any("fsdp" in type(part).__module__ for part in model.modules()):
        problem = "the model is sharded: its forward waits for other ranks; use link.work.waiting() instead"
    if problem:
        warnings.warn(f"worker_link: own work is not measured: {problem}", stacklevel=3)
        return False

    def gradient_is_there(_gradient: object) -> None:
        work.done()

    for parameter in parameters:
        parameter.register_hook(gradient_is_there)
    return True
