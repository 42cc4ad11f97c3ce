"""What the server denied to our identity: said once, and told to whoever waits on that subject.

NATS answers a forbidden publish or subscription only on the side, as an error without a request; whoever waits would
see a silence and take it for a slow server.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service_kit.errors import NoPermission
from service_kit.logging import get_logger

KEPT_MAX = 64
"""Denied subjects that are remembered; a process that may little meets a handful."""
WHAT_TO_DO = (
    "this identity may not do that: is it the right one (NATS_NKEY_SEED_FILE), and are the server's permissions of "
    "this version? `phalanx security check` tells; docs/security.md says who may what"
)
_DENIAL = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)

DenialListener = Callable[[str, str], None]

log = get_logger(__name__)


class Denials:
    """Of one connection. Subjects are compared in lower case: nats-py lowers the server's words."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._said: set[str] = set()
        self._listeners: list[DenialListener] = []
        self._waiting: dict[str, list[asyncio.Timeout]] = {}

    def on_denial(self, listener: DenialListener) -> None:
        """Call `listener(subject, text)`, the subject in lower case, at each denial."""
        self._listeners.append(listener)

    def heard(self, text: str) -> bool:
        """Take an error of the server; False: it is about something else."""
        found = _DENIAL.search(text)
        if found is None:
            return False
        subject = found.group(2).lower()
        if subject not in self._said and len(self._said) < KEPT_MAX:
            # Once: who is denied usually tries again, and the log must not fill with it.
            self._said.add(subject)
            log.error("bus_permission_denied", subject=subject, error=text, help=WHAT_TO_DO)
        self._kept[subject] = text
        self._kept.move_to_end(subject)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        now_s = asyncio.get_running_loop().time()
        for wait in self._waiting.get(subject, ()):
            wait.reschedule(now_s)
        for listener in self._listeners:
            listener(subject, text)
        return True

    @contextmanager
    def ending(self, subject: str, wait: asyncio.Timeout) -> Iterator[None]:
        """While the block runs, a denial of the subject ends `wait` at once (TimeoutError). Older denials are over."""
        key = subject.lower()
        self._kept.pop(key, None)
        self._waiting.setdefault(key, []).append(wait)
        try:
            yield
        finally:
            waits = self._waiting[key]
            waits.remove(wait)
            if not waits:
                del self._waiting[key]

    def raise_if_denied(self, subject: str, what: str, *, listening: bool = False) -> None:
        """Say that it was no silence but a denial.

        Raises:
            NoPermission: the server denied to publish on this subject, or to listen to it.
        """
        text = self._kept.get(subject.lower())
        if text is not None and listening == ("for subscription" in text.lower()):
            raise NoPermission(f"{what}: {text}; {WHAT_TO_DO}")
