"""Long phases that a script declares, so that the agent does not take them for a hang. They may be nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from worker_link.phase_messages import PHASE_LENGTH_MAX, PhaseBegun, PhaseDone, PhaseMessage


class PhaseStack:
    """The phases that this process is in, outermost first."""

    def __init__(self, report: Callable[[PhaseMessage], None], version: Callable[[], int]) -> None:
        self._report = report
        self._version = version
        self._names: list[str] = []

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """In the phase until the block ends, by whatever end.

        Raises:
            ValueError: no name, or one that is too long; a mistake in the script.
        """
        if not 0 < len(name) <= PHASE_LENGTH_MAX:
            raise ValueError(f"a phase has a name of 1 to {PHASE_LENGTH_MAX} characters, not {name[:80]!r}")
        version = self._version()
        self._names.append(name)
        self._report(PhaseBegun(phase=name, topology_version=version))
        try:
            yield
        finally:
            self._names.pop()
            # Said of the generation in which it began: after a restart in place its end is no news.
            if self._names and self._version() == version:
                self._report(PhaseBegun(phase=self._names[-1], topology_version=version))
            else:
                self._report(PhaseDone(topology_version=version))
