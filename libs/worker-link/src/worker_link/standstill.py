"""Whether the thread that an abort should have freed still sits in the same call of torch.distributed.

Two such calls were met with torch 2.13 on gloo, in tests/chaos. A send that was queued when its connection was shut
down is never ended (gloo's UnboundBuffer::waitSend; 2 of 75 exceptions in the middle of an all_reduce). And a rank that
looks for the store of a rank 0 that died knocks in C++ until the time-out of the group. No signal, exception or
shutdown reaches either, so such a process is better replaced at once than waited for until the barrier's deadline.
"""

from __future__ import annotations

import sys

LOOKS_MIN = 2
"""So many looks in a row must find the same place; they are a second apart, and an abort takes milliseconds."""
_WHOSE = "torch/distributed/"


class Standstill:
    """What was seen of a thread at the last looks."""

    def __init__(self) -> None:
        self._seen: tuple[int, int, int] | None = None
        self._looks = 0

    def look(self, thread_id: int | None, version: int) -> str:
        """Where the thread stands still, the first time that this is sure; empty otherwise."""
        frame = None if thread_id is None else sys._current_frames().get(thread_id)
        if frame is None or _WHOSE not in frame.f_code.co_filename:
            self._seen, self._looks = None, 0
            return ""
        place = (version, id(frame), frame.f_lasti)
        self._looks = self._looks + 1 if place == self._seen else 1
        self._seen = place
        if self._looks != LOOKS_MIN:
            return ""
        file = frame.f_code.co_filename
        return f"{frame.f_code.co_name} of {file[file.rindex(_WHOSE) :]}:{frame.f_lineno}"
