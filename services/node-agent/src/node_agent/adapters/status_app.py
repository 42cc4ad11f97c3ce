"""The status API's routes (FastAPI). Imported only when somebody asks: it costs 15 MB and half a second.

Every route reads; there is none that writes. All are coroutines, so nothing here waits for a pool of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from node_agent.adapters.status_metrics import CONTENT_TYPE, AgentMetrics
from node_agent.application.describe_agent import AgentDescriber
from node_agent.application.inspect_rank import RankInspection, TooSoon, UnknownRank
from node_agent.application.status_views import LogStreamName, RankView, StacksView, StatusView, TailView
from service_kit.web.problems import PROBLEM_JSON, problem

ROUTES = "/status /ranks /logs/tail?rank=N&stream=stdout&lines=100 /stacks?rank=N /metrics /healthz /openapi.json"
LINES_MAX = 1_000
RANK_MAX = 2**31

RankQuery = Annotated[int, Query(ge=0, le=RANK_MAX, description="global rank")]
LinesQuery = Annotated[int, Query(ge=1, le=LINES_MAX, description="the last so many")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPages:
    """What the routes ask."""

    describer: AgentDescriber
    inspection: RankInspection
    metrics: AgentMetrics


def make_app(pages: StatusPages) -> FastAPI:
    """The application; the pages of a browser's UI are left out, because they would load scripts from elsewhere."""
    app = FastAPI(title="Phalanx node agent", version="1", docs_url=None, redoc_url=None)
    _add_problems(app)

    @app.get("/status")
    async def status() -> StatusView:
        """The agent: phase, generation, planner, outbox, last fault."""
        return pages.describer.status()

    @app.get("/ranks")
    async def ranks() -> tuple[RankView, ...]:
        """Each rank of this node."""
        return pages.describer.ranks()

    @app.get("/logs/tail")
    async def tail(rank: RankQuery, stream: LogStreamName = LogStreamName.STDOUT, lines: LinesQuery = 100) -> TailView:
        """The last lines of a rank's output; at most 256 KB."""
        return await pages.inspection.tail(rank, stream, lines_max=lines)

    @app.get("/stacks")
    async def stacks(rank: RankQuery) -> StacksView:
        """Stacks of all threads of a rank, taken now. The rank goes on."""
        return await pages.inspection.stacks(rank)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Prometheus text."""
        return Response(pages.metrics.render(), media_type=CONTENT_TYPE)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The agent answers. Not whether the job or the bus is well: nobody may restart an agent for that."""
        return {"health": "ok"}

    return app


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return _problem(request, 404, f"no such page; there are: {ROUTES}")
        if error.status_code == 405:
            return _problem(request, 405, "this API only reads; use GET")
        return _problem(request, error.status_code, str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def query(request: Request, error: RequestValidationError) -> Response:
        wrong = "; ".join(f"{e['loc'][-1]}: {e['msg']}" for e in error.errors()[:5])
        return _problem(request, 400, f"bad query: {wrong}; try: {ROUTES}")

    @app.exception_handler(UnknownRank)
    async def unknown(request: Request, error: UnknownRank) -> Response:
        return _problem(request, 404, str(error))

    @app.exception_handler(TooSoon)
    async def too_soon(request: Request, error: TooSoon) -> Response:
        return _problem(request, 429, str(error), {"Retry-After": str(int(error.wait_s) + 1)})

    @app.exception_handler(TimeoutError)
    async def silent(request: Request, _error: TimeoutError) -> Response:
        return _problem(request, 504, "the file system with the ranks' logs does not answer; look at it on this node")

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return _problem(request, 500, f"{type(error).__name__}; the trace is in agent.log in the agent's folder")


def _problem(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    body = problem(status, detail, instance=request.url.path)
    return Response(body, status_code=status, media_type=PROBLEM_JSON, headers=headers)
