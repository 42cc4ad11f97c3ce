"""Routes of the door for other systems' signals (FastAPI). Imported only when the door is open.

Every route takes one body of bounded size, validates it, and answers each of its items. Nothing can be read here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from health_ingest.adapters.foreign_bodies import ALERTMANAGER, CLOUDEVENTS, NODE_CONDITIONS, NVSENTINEL
from health_ingest.adapters.maintenance_bodies import MAINTENANCE
from health_ingest.application.take_foreign import ITEMS_MAX, Answered, TakeForeign
from health_ingest.domain.foreign import Outcome, Told
from service_kit.errors import PermanentError, TransientError
from service_kit.web.problems import PROBLEM_JSON, problem

BODY_BYTES_MAX = 1_000_000
"""A notification of Alertmanager with 1,000 alerts of 1 KB."""
THROWN_AWAY_BYTES_MAX = 16_000_000
RETRY_AFTER_S = 5


class _Body(Protocol):
    def told(self) -> Iterator[Told]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """One route."""

    path: str
    summary: str
    types: tuple[str, ...]
    shape: TypeAdapter[Any]


JSON = ("application/json",)
PAGES = (
    _Page(path="/v1/signals/alertmanager", summary="Alertmanager webhook, version 4.", types=JSON, shape=ALERTMANAGER),
    _Page(
        path="/v1/signals/cloudevents",
        summary="CloudEvents 1.0, structured JSON or a batch.",
        types=("application/cloudevents+json", "application/cloudevents-batch+json", "application/json"),
        shape=CLOUDEVENTS,
    ),
    _Page(path="/v1/signals/nvsentinel", summary="NVSentinel's HealthEvent.", types=JSON, shape=NVSENTINEL),
    _Page(
        path="/v1/signals/maintenance",
        summary="Maintenance and spot notices of aws, gcp and azure.",
        types=JSON,
        shape=MAINTENANCE,
    ),
    _Page(
        path="/v1/signals/node-problem-detector",
        summary="Conditions of a node, as Kubernetes has them.",
        types=JSON,
        shape=NODE_CONDITIONS,
    ),
)
ROUTES = ", ".join(page.path for page in PAGES)


class ItemAnswer(BaseModel):
    """What became of one item."""

    item: int
    outcome: Outcome
    name: str
    why: str
    check: str = ""
    node_id: str = ""
    component: str = ""
    component_id: str = ""
    health: str = ""
    signal_id: str = ""


class SignalsAnswer(BaseModel):
    """What became of a request."""

    accepted: int
    ignored: int
    refused: int
    items: list[ItemAnswer]


def make_app(taking: TakeForeign) -> FastAPI:
    """The application; a door has no pages: neither a UI, which would load scripts from elsewhere, nor its schema."""
    app = FastAPI(title="Phalanx signals", version="1", docs_url=None, redoc_url=None, openapi_url=None)
    _add_problems(app)
    for page in PAGES:
        body = {"required": True, "content": {kind: {"schema": {"type": "object"}} for kind in page.types}}
        app.add_api_route(
            page.path,
            _route(page, taking),
            methods=["POST"],
            summary=page.summary,
            openapi_extra={"requestBody": body},
            response_model=SignalsAnswer,
        )
    return app


def _route(page: _Page, taking: TakeForeign) -> Callable[[Request], Awaitable[SignalsAnswer]]:
    async def take(request: Request) -> SignalsAnswer:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in page.types:
            raise HTTPException(415, f"content type {kind[:80]!r}; send {' or '.join(page.types)}")
        body = await _read(request)
        told = _validated(page, body)
        if len(told) > ITEMS_MAX:
            raise HTTPException(413, f"{len(told)} items; at most {ITEMS_MAX} a request")
        return _answer(await taking.take(told))

    return take


async def _read(request: Request) -> bytes:
    """The body.

    Raises:
        HTTPException: 413. What is too long is read to its end and thrown away, within limits: a client that is still
            sending would see its connection reset, and not why.
    """
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= BODY_BYTES_MAX:
            body += chunk
        elif size > THROWN_AWAY_BYTES_MAX:
            break
    if size > BODY_BYTES_MAX:
        raise HTTPException(413, f"a body has at most {BODY_BYTES_MAX} bytes")
    return bytes(body)


def _validated(page: _Page, body: bytes) -> list[Told]:
    """All items.

    Raises:
        HTTPException: 422 with the first places that are wrong; none of their values.
    """
    try:
        shape: _Body = page.shape.validate_json(body)
        return list(shape.told())
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in errors[:5])
        raise HTTPException(422, f"{wrong[:1_000]} ({len(errors)} in all); see docs/foreign-signals.md") from None


def _answer(answers: Sequence[Answered]) -> SignalsAnswer:
    items = []
    for place, each in enumerate(answers):
        found = each.understood
        accepted = found.outcome is Outcome.ACCEPTED
        items.append(
            ItemAnswer(
                item=place,
                outcome=found.outcome,
                name=each.told.name[:256],
                why=found.why[:512],
                check=found.check,
                node_id=found.node_id,
                component=found.component.value if accepted else "",
                component_id=found.component_id,
                health=found.health.value if accepted else "",
                signal_id=each.signal_id,
            )
        )
    counts = {outcome.value: sum(item.outcome is outcome for item in items) for outcome in Outcome}
    return SignalsAnswer(**counts, items=items)


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        detail = str(error.detail)
        if error.status_code == 404:
            detail = f"no such page; there are: {ROUTES}"
        elif error.status_code == 405:
            detail = "signals are sent with POST"
        return _problem(request, error.status_code, detail)

    @app.exception_handler(TransientError)
    async def unavailable(request: Request, _error: TransientError) -> Response:
        detail = "the bus does not take signals now; send the same request again, nothing will be doubled"
        return _problem(request, 503, detail, {"Retry-After": str(RETRY_AFTER_S)})

    @app.exception_handler(PermanentError)
    async def refused(request: Request, error: PermanentError) -> Response:
        return _problem(request, 422, f"the bus refuses it: {error}"[:1_000])

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, _error: ClientDisconnect) -> Response:
        return _problem(request, 400, "the connection ended before the body did")

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return _problem(request, 500, f"{type(error).__name__}; the trace is in the log of health-ingest")


def _problem(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    body = problem(status, detail, instance=request.url.path)
    return Response(body, status_code=status, media_type=PROBLEM_JSON, headers=headers)
