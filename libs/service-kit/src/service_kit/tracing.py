"""W3C trace context across the bus. Without an exporter it costs one header: what came in goes out again.

OpenTelemetry is imported only where an exporter is configured (service_kit.otel): its SDK costs memory, and 12 us a
message even when nothing is sampled. A consumer's span stays in the producer's trace, so that an incident is one trace,
and links to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

HEADER = "traceparent"
_FORM = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_current: ContextVar[str | None] = ContextVar("traceparent", default=None)


class Tracer(Protocol):
    """What a tracing backend must do; service_kit.otel has the one for OpenTelemetry."""

    def publishing(self, message: str, headers: dict[str, str]) -> None:
        """Note a publish and put its context into the headers."""
        ...

    def handling(self, message: str, parent: str | None) -> AbstractContextManager[None]:
        """Span around a handler, linked to the message's context."""
        ...


_tracer: Tracer | None = None


def enable_tracing(tracer: Tracer | None) -> None:
    """Trace from now on (None: stop). Called once in main, by service_kit.lifecycle."""
    global _tracer  # noqa: PLW0603 - one tracer per process, as in OpenTelemetry itself
    _tracer = tracer


def inject(message: str, headers: dict[str, str]) -> None:
    """Put the current trace context into the headers of an outgoing message."""
    if _tracer is not None:
        _tracer.publishing(message, headers)
        return
    current = _current.get()
    if current is not None:
        headers[HEADER] = current


@contextmanager
def handling(message: str, headers: Mapping[str, str] | None) -> Iterator[None]:
    """Work on a message inside its trace context."""
    parent = headers.get(HEADER) if headers else None
    if parent is not None and not _FORM.fullmatch(parent):
        parent = None
    if _tracer is not None:
        with _tracer.handling(message, parent):
            yield
        return
    if parent is None:
        yield
        return
    token = _current.set(parent)
    try:
        yield
    finally:
        _current.reset(token)
