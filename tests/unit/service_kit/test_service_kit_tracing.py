"""The trace context travels; without a tracer at next to no cost."""

import time
from collections.abc import Iterator

import pytest

from service_kit import tracing
from service_kit.otel import OpenTelemetryTracer, tracing_from_environment

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def _no_tracer() -> Iterator[None]:
    yield
    tracing.enable_tracing(None)


def test_what_came_in_goes_out_again_and_only_inside_the_handler() -> None:
    headers: dict[str, str] = {}
    with tracing.handling("evt.x", {"traceparent": PARENT}):
        tracing.inject("evt.y", headers)
    outside: dict[str, str] = {}
    tracing.inject("evt.y", outside)
    assert headers == {"traceparent": PARENT}
    assert outside == {}


@pytest.mark.parametrize("parent", ["", "00-xyz", PARENT + "\r\nEvil: 1", "00-" + "0" * 200])
def test_a_malformed_context_is_not_passed_on(parent: str) -> None:
    headers: dict[str, str] = {}
    with tracing.handling("evt.x", {"traceparent": parent}):
        tracing.inject("evt.y", headers)
    assert headers == {}


def test_it_costs_microseconds_when_off() -> None:
    best_s = float("inf")
    for _ in range(5):
        started_s = time.perf_counter()
        for _ in range(1_000):
            headers: dict[str, str] = {}
            with tracing.handling("evt.x", {"traceparent": PARENT}):
                tracing.inject("evt.y", headers)
        best_s = min(best_s, time.perf_counter() - started_s)
    assert best_s / 1_000 < 20e-6


def test_no_exporter_means_no_tracer_and_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    tracing_from_environment("a-service")()
    headers: dict[str, str] = {}
    tracing.inject("evt.y", headers)
    assert headers == {}


@pytest.mark.usefixtures("_no_tracer")
def test_with_opentelemetry_an_incident_is_one_trace_with_links() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("test")))
    first: dict[str, str] = {}
    tracing.inject("evt.x", first)
    second: dict[str, str] = {}
    with tracing.handling("evt.x", first):
        tracing.inject("evt.y", second)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"publish evt.x", "process evt.x", "publish evt.y"}
    assert len({span.context.trace_id for span in spans.values() if span.context}) == 1
    sent = spans["publish evt.x"].context
    assert sent is not None
    assert spans["process evt.x"].links[0].context.span_id == sent.span_id
    assert first["traceparent"].split("-")[1] == second["traceparent"].split("-")[1]
