"""OpenTelemetry behind service_kit.tracing: loaded only where an exporter is configured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service_kit import tracing
from service_kit.logging import get_logger

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables; the OTLP exporter package is the user's to install."""

log = get_logger(__name__)


def tracing_from_environment(service: str) -> Callable[[], None]:
    """Trace when an OTLP endpoint is named; returns what flushes and ends it. A missing exporter is said, not fatal."""
    if not any(os.environ.get(name) for name in SWITCHES):
        return lambda: None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # type: ignore[import-not-found]
    except ImportError:
        log.warning("tracing_off", reason="opentelemetry-exporter-otlp-proto-http is not installed")
        return lambda: None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("phalanx")))

    def end() -> None:
        tracing.enable_tracing(None)
        provider.shutdown()

    return end


class OpenTelemetryTracer:
    """service_kit.tracing.Tracer on an OpenTelemetry tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def publishing(self, message: str, headers: dict[str, str]) -> None:
        """A producer span of no length; its context travels."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        with self._tracer.start_as_current_span(
            f"publish {message}",
            kind=trace.SpanKind.PRODUCER,
            attributes={"messaging.system": "nats", "messaging.operation.type": "publish"},
        ):
            TraceContextTextMapPropagator().inject(headers)

    @contextmanager
    def handling(self, message: str, parent: str | None) -> Iterator[None]:
        """A consumer span in the producer's trace, linked to it."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract({tracing.HEADER: parent} if parent else {})
        producer = trace.get_current_span(context).get_span_context()
        with self._tracer.start_as_current_span(
            f"process {message}",
            context=context,
            kind=trace.SpanKind.CONSUMER,
            links=[trace.Link(producer)] if producer.is_valid else [],
            attributes={"messaging.system": "nats", "messaging.operation.type": "process"},
        ):
            yield
