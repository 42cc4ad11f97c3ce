"""Opens the agent's status API: use cases, sockets, and what is said about it. Loads no web framework."""

from __future__ import annotations

from pathlib import Path

from node_agent.adapters.status_options import StatusOptions
from node_agent.adapters.status_rank_files import ProcLook, RankFileRecords
from node_agent.adapters.status_server import Site, StatusServer, bind
from node_agent.adapters.worker_processes import ProcessWorkers
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.describe_agent import AgentDescriber
from node_agent.application.inspect_rank import RankInspection
from node_agent.application.status_views import Backlog
from service_kit.logging import get_logger
from service_kit.ports import Clock
from service_kit.web.token import BadToken

log = get_logger(__name__)


class StatusUnavailable(Exception):
    """The API cannot be opened where the user asked for it; the message says why."""


class StatusApi:
    """One agent's API. `describer` is there also when nobody listens."""

    def __init__(
        self, life: AgentLife, processes: ProcessWorkers, backlog: Backlog, clock: Clock, announcer: Announcer
    ) -> None:
        look = ProcLook()
        self.describer = AgentDescriber(life, processes, look, backlog, clock)
        self._inspection = RankInspection(life, self.describer, processes, look, RankFileRecords(), processes, clock)
        self._announcer = announcer
        self._server: StatusServer | None = None

    def open(self, options: StatusOptions, folder: Path) -> None:
        """Listen, and say where.

        Raises:
            StatusUnavailable: what the user asked for cannot be had. The default socket is no such wish: without it
                the job runs as well.
        """
        try:
            listeners = bind(options, options.read_token(), folder)
        except (OSError, BadToken) as error:
            if options.socket or options.port is not None:
                raise StatusUnavailable(f"status API: {error}") from error
            log.warning("status_socket_not_made", error=str(error))
            return
        self._server = StatusServer(self._load, self._announcer.say, listeners)
        self._server.start()
        for listener in listeners:
            self._announcer.say(f"status: {listener.shown}")

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            await self._server.close()

    def _load(self) -> Site:
        # Here and not above: FastAPI and uvicorn would cost every agent 15 MB and half a second.
        from node_agent.adapters.status_app import StatusPages, make_app
        from node_agent.adapters.status_metrics import AgentMetrics
        from service_kit.web.site import GuardedSite

        metrics = AgentMetrics(self.describer)
        app = make_app(StatusPages(describer=self.describer, inspection=self._inspection, metrics=metrics))
        app.openapi()  # made here, in the loading thread, and not while the loop waits for it
        return GuardedSite(app)
