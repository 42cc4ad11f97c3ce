"""A service's life: settings, connection, streams, wiring, ready, work, and an end in order.

Exit codes (sysexits.h where it has one): 0 clean, 69 the bus is unavailable, 70 internal error, 78 bad settings.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from enum import IntEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from fault_contracts.registry import Bucket
from service_kit.cancellation import cancel_all
from service_kit.clock import SystemClock
from service_kit.command_signature import CommandKeys
from service_kit.errors import BusUnavailable, PermanentError
from service_kit.http_status import HttpStatus
from service_kit.jetstream.auditor import Auditor
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.publisher import Publisher
from service_kit.jetstream.streams import ensure_streams
from service_kit.logging import configure_logging, get_logger
from service_kit.otel import tracing_from_environment
from service_kit.ports import Bus, KeyValue, Subscription
from service_kit.settings import BusSettings
from service_kit.web.token import BadToken, token_in_file

S = TypeVar("S", bound=BusSettings)

_COLLECT_AFTER = (20_000, 50, 100)
"""Objects of the youngest generation, and collections of a younger one, after which a generation is looked at."""

log = get_logger(__name__)


class ExitCode(IntEnum):
    """How a service ends."""

    CLEAN = 0
    BUS_UNAVAILABLE = 69
    INTERNAL = 70
    BAD_SETTINGS = 78


class Service(Generic[S]):
    """What `wire` may use, and what it must hand over so that it is stopped in order."""

    def __init__(self, *, name: str, settings: S, connection: Connection, http: HttpStatus) -> None:
        self.name = name
        self.settings = settings
        self.connection = connection
        self.clock = SystemClock()
        self.http = http
        self.stopping = asyncio.Event()
        self._publisher = Publisher(connection)
        self.bus: Bus = JetStreamBus(
            connection,
            cluster=settings.cluster,
            source=f"/{name}/{os.getpid()}",
            publish_limit_s=settings.publish_limit_s,
            publisher=self._publisher,
            command_keys=None if settings.command_keys is None else CommandKeys(settings.command_keys),
        )
        self._owned: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def key_value(self, bucket: Bucket) -> KeyValue:
        """One bucket of this cluster."""
        return JetStreamKeyValue(self.connection, bucket, cluster=self.settings.cluster, publisher=self._publisher)

    async def audit(self, name: str) -> None:
        """Look after what no handler meets, see service_kit.audit; one service of a cluster does."""
        dead_letters = DeadLetters(
            self._publisher, cluster=self.settings.cluster, source=f"/{self.name}/{os.getpid()}", clock=self.clock
        )
        auditor = Auditor(self.connection, cluster=self.settings.cluster, name=name, dead_letters=dead_letters)
        self.own(auditor)
        await auditor.start()

    def own(self, subscription: Subscription) -> None:
        """Stop this at the end; the last one first."""
        self._owned.append(subscription)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run work beside the consumers. It is cancelled at the end; its failure ends the service with 70."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._task_ended)
        self._tasks.append(task)

    def add_check(self, name: str, check: Callable[[], str | None]) -> None:
        """Take part in /readyz: None when well, else what is wrong."""
        self.http.add_check(name, check)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not self._failed.done():
            failure = task.exception()
            assert failure is not None, "checked above"
            log.error("background_work_failed", work=task.get_name(), exc_info=failure)
            self._failed.set_result(failure)

    async def until_end(self) -> ExitCode:
        """Wait for a signal, a failed task or a connection that closed for good."""
        stop = asyncio.create_task(self.stopping.wait())
        closed = asyncio.create_task(self.connection.closed.wait())
        ends: set[asyncio.Future[Any]] = {stop, closed, self._failed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in (stop, closed):
            task.cancel()
        if self._failed.done():
            return ExitCode.INTERNAL
        return ExitCode.CLEAN if self.stopping.is_set() else ExitCode.BUS_UNAVAILABLE

    async def shut_down(self) -> None:
        """No new work, finish what is in hand, then cancel the rest."""
        self.stopping.set()
        try:
            async with asyncio.timeout(self.settings.stop_limit_s):
                for subscription in reversed(self._owned):
                    await subscription.stop()
        except TimeoutError:
            log.warning("stop_limit_passed", limit_s=self.settings.stop_limit_s)
        for task in await cancel_all(self._tasks):
            log.error("background_work_does_not_end", work=task.get_name())


Wire = Callable[[Service[S]], Awaitable[None]]
"""Builds adapters and use cases and starts the consumers; returns when the service does its work."""


def run_service(name: str, settings_class: type[S], wire: Wire[S], *, keeps_streams: bool = True) -> int:
    """The whole of a service's main: returns the exit code.

    `keeps_streams`: create and update the streams at the start. Not for what runs on every machine of a cluster: its
    settings would be one more opinion on how large they are.
    """
    try:
        settings = settings_class()
    except ValidationError as error:
        print(bad_settings_text(name, error), file=sys.stderr)  # noqa: T201 - before logging is set up
        return ExitCode.BAD_SETTINGS
    configure_logging(service=name, level=settings.log_level, log_format=settings.log_format)
    try:
        return asyncio.run(_live(name, settings, wire, keeps_streams))
    except KeyboardInterrupt:
        return ExitCode.CLEAN


def bad_settings_text(name: str, error: ValidationError) -> str:
    """Which setting is wrong, and why; never its value, which may be a secret."""
    lines = [f"{name}: bad settings"]
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in problem["loc"]) or "settings"
        lines.append(f"  {place}: {problem['msg']}")
    return "\n".join(lines)


def calm_the_collector() -> None:
    """Leave what the imports made alone, and look at young objects less often.

    A batch of 1,000 messages is some 30,000 objects that live for a tenth of a second: with Python's own threshold of
    700 the collector walks through them again and again and finds nothing. Measured with health-ingest in a storm:
    8,500 to 11,000 signals a second of one core (make bench-health), at the same memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


async def _live(name: str, settings: S, wire: Wire[S], keeps_streams: bool) -> int:
    end_requested = asyncio.Event()
    _listen_to_signals(end_requested)
    calm_the_collector()
    try:
        file = settings.http_token_file
        token = None if file is None else token_in_file(file, "PHALANX_HTTP_TOKEN_FILE")
    except BadToken as error:
        log.error("cannot_start", error=str(error), type=type(error).__name__)
        return ExitCode.BAD_SETTINGS
    http = HttpStatus(service=name, token=token, metrics_open=settings.http_metrics_open)
    started = asyncio.Event()
    http.add_check("started", lambda: None if started.is_set() else "starting")
    connection: Connection | None = None
    service: Service[S] | None = None
    code = ExitCode.CLEAN
    end_tracing = tracing_from_environment(name)
    try:
        port = await http.start(settings.http_host, settings.http_port)
        connection = await _unless(end_requested, connect(settings, name=name))
        if connection is None:
            return ExitCode.CLEAN
        up = connection
        http.add_check("bus", lambda: None if up.is_connected else "not connected to NATS")
        if keeps_streams:
            await ensure_streams(connection, settings)
        service = Service(name=name, settings=settings, connection=connection, http=http)
        await wire(service)
        started.set()
        _write_ready_file(settings.ready_file, port, service.clock)
        log.info("service_ready", http_port=port, cluster=settings.cluster)
        relay = asyncio.create_task(_relay(end_requested, service.stopping))
        code = await service.until_end()
        relay.cancel()
    except BusUnavailable as error:
        log.error("bus_unavailable", error=str(error))
        code = ExitCode.BUS_UNAVAILABLE
    except (PermanentError, OSError) as error:
        log.error("cannot_start", error=str(error), type=type(error).__name__)
        code = ExitCode.BAD_SETTINGS
    except Exception:
        log.exception("internal_error")
        code = ExitCode.INTERNAL
    finally:
        started.clear()
        if service is not None:
            await service.shut_down()
        if connection is not None:
            await connection.close()
        await http.stop()
        end_tracing()
        if settings.ready_file is not None:
            settings.ready_file.unlink(missing_ok=True)
        log.info("service_ended", exit_code=int(code))
    return code


def _listen_to_signals(end_requested: asyncio.Event) -> None:
    """First signal: end in order. Second: at once."""

    def on_signal(number: signal.Signals) -> None:
        if end_requested.is_set():
            os._exit(128 + number)
        log.info("signal_received", signal=number.name)
        end_requested.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


T = TypeVar("T")


async def _unless(end_requested: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None when the end was requested first."""
    task = asyncio.create_task(work)
    ended = asyncio.create_task(end_requested.wait())
    await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None
    return task.result()


async def _relay(source: asyncio.Event, target: asyncio.Event) -> None:
    await source.wait()
    target.set()


def _write_ready_file(path: Path | None, port: int, clock: SystemClock) -> None:
    if path is None:
        return
    body = {"pid": os.getpid(), "http_port": port, "ready_at": clock.now().isoformat()}
    half = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    half.write_text(json.dumps(body) + "\n", encoding="utf-8")
    half.replace(path)  # whole or not at all: somebody polls for it
