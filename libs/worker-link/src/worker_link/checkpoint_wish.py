"""When a rank has to act on a request for a checkpoint: all ranks of a gang after the same step, without a collective.

A request names a step that no rank had reached when it was made. It is due at the first step at or behind that one at
which the script asks; scripts ask at the same steps on all ranks, so that is one step for the gang. A request that
comes to a rank which has asked at such a step before is too late: obeying it would be a checkpoint of this rank alone,
and where saving is collective, a hang. So it is not obeyed, and the rank says so.
"""

from __future__ import annotations

import warnings

from worker_link.messages import CheckpointRequest


class CheckpointWish:
    """The pending request of one rank in one generation. Not thread-safe: the link holds its lock."""

    def __init__(self) -> None:
        self._pending: CheckpointRequest | None = None
        self._asked_at: int | None = None
        self._done_at: int | None = None

    def receive(self, request: CheckpointRequest) -> None:
        """Take a request over; a repeat of one that was obeyed changes nothing, and a newer one replaces an older."""
        if request.at_step is not None and request.at_step == self._done_at:
            return
        if request.at_step is not None and self._asked_at is not None and self._asked_at >= request.at_step:
            warnings.warn(
                f"worker_link: the request for a checkpoint after step {request.at_step} came after step "
                f"{self._asked_at} and is not obeyed: the other ranks may have saved at another step",
                stacklevel=4,
            )
            return
        self._pending = request

    def due(self, step: int | None) -> CheckpointRequest | None:
        """The request, once, when it is due after this finished step (None: the script has reported none yet)."""
        if step is not None:
            self._asked_at = step
        request = self._pending
        if request is None or (request.at_step is not None and (step is None or step < request.at_step)):
            return None
        self._pending = None
        self._done_at = request.at_step
        return request
