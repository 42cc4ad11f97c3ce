"""Calls a thread out of the user's function by an exception, and never strikes it anywhere else.

CPython can set an exception in another thread (PyThreadState_SetAsyncExc); it is raised between two bytecodes. Without
care it lands behind the block that it was meant for. Here the gate is the care: the helper strikes only while the gate
is open, under the gate's lock, and `leave` closes it and takes back, under the same lock, a strike that was set and has
not landed. After `leave` has returned none can land.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_SYMBOL = ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
_set_async_exc = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(_SYMBOL)
_take_back_async_exc = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(_SYMBOL)
"""The same function; NULL is no object, so it needs a prototype of its own."""


class RestartRequested(BaseException):
    """Raised inside a re-executable block when somebody else failed: let it pass, clean up in `finally`.

    Not an Exception, so that an `except Exception` around a step does not swallow it.
    """


class StrikeGate:
    """Open while one thread runs the user's function for one topology_version.

    Attributes:
        aborted_version: the newest version that must not run any more. A level, not an event: an abort that comes
            before its block is entered is found at the entry.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._version = 0
        self.aborted_version = -1

    @property
    def lock(self) -> threading.Lock:
        """For whoever must decide together with the gate."""
        return self._lock

    @property
    def thread_id(self) -> int | None:
        """Who runs the user's function; None: nobody does."""
        return self._thread_id

    def is_open(self, version: int) -> bool:
        """A thread runs the block of this version, or of an older one."""
        return self._thread_id is not None and self._version <= version

    def enter(self, version: int) -> None:
        """Open for the calling thread.

        Raises:
            RestartRequested: this version was aborted already.
        """
        with self._lock:
            if self.aborted_version >= version:
                raise RestartRequested(f"version {version} was aborted before it began")
            self._version = version
            self._thread_id = threading.get_ident()

    def leave(self) -> None:
        """Close; to be called until it returns, for a strike may land in it. Safe to repeat."""
        with self._lock:
            thread_id, self._thread_id = self._thread_id, None
            if thread_id is None:
                thread_id = threading.get_ident()
            # NULL takes back what was set and has not been raised yet.
            _take_back_async_exc(thread_id, None)

    def abort(self, version: int) -> bool:
        """Note that a version is over and strike whoever runs it.

        Returns:
            True while somebody is inside: strike again later, for the user's code may swallow exceptions.
        """
        with self._lock:
            self.aborted_version = max(self.aborted_version, version)
            return self._strike(version)

    def strike(self, version: int) -> bool:
        """Strike again. True while somebody is inside."""
        with self._lock:
            return self._strike(version)

    def _strike(self, version: int) -> bool:
        if not self.is_open(version):
            return False
        assert self._thread_id is not None, "an open gate has a thread"
        _set_async_exc(self._thread_id, RestartRequested)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call inside the gate ended: with a value, by an exception of its own, or (neither) struck out."""

    returned: bool = False
    value: Any = None
    error: BaseException | None = None


STRUCK_OUT = Outcome()


def call_inside(gate: StrikeGate, version: int, function: Callable[[], Any]) -> Outcome:
    """Call a function between the gate's posts; when this returns, no strike is on its way.

    A strike may land at any check of the interpreter until the gate is closed, also in the handlers of `_call_inside`.
    Strikes for one version are at least a second apart, so a second one cannot land in the handler here.
    """
    try:
        return _call_inside(gate, version, function)
    except RestartRequested:
        gate.leave()
        return STRUCK_OUT


def _call_inside(gate: StrikeGate, version: int, function: Callable[[], Any]) -> Outcome:
    outcome = STRUCK_OUT
    try:
        try:
            gate.enter(version)
            outcome = Outcome(returned=True, value=function())
        except RestartRequested:
            outcome = STRUCK_OUT
        except BaseException as error:  # noqa: BLE001  sorted by the caller
            outcome = Outcome(error=error)
    except RestartRequested:
        # It landed in a handler above; what the handler had found still counts.
        pass
    try:
        gate.leave()
    except RestartRequested:
        # It landed in `leave`, which is safe to repeat.
        gate.leave()
    return outcome
