"""A stack: nats-server, Valkey and the services, up while a block runs and gone after it, whatever ends the block.

In order through `__aexit__` (also for Ctrl-C); without order, by PR_SET_PDEATHSIG, when this process is killed.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.identity import identify
from phalanx_cli.stack.member import StackMember
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from phalanx_cli.stack.probes import nats_problem, redis_problem, without_password
from phalanx_cli.stack.remains import end_remains
from phalanx_cli.stack.services import SERVICES, ServiceProcess, ServiceSpec, ServiceSurroundings
from phalanx_cli.stack.state import (
    HealthCheck,
    MemberRecord,
    StackOwner,
    StackPhase,
    StackState,
    read_state,
    remove_state,
    write_state,
)
from phalanx_cli.stack.supervision import Supervision
from phalanx_cli.stack.valkey_server import ValkeyServer

LOCK_FILE = "stack.lock"

EXTERNAL_TIMEOUT_S = 5.0
"""For one look at a server that somebody else runs, perhaps far away."""

_log = logging.getLogger("phalanx.stack")


class Stack:
    """The stack of one data folder, which one stack uses at a time.

    With `nats_url` or `redis_url` that server is asked once whether it answers, and not started. `nats_listen` (host,
    port) lets other machines reach the embedded nats-server; without it, it is on loopback. Enter the stack in a
    thread that outlives it (the main one), see `exec_guard`.

    Raises:
        StackError: on entry, when anything does not start; nothing is left running then.
    """

    def __init__(
        self,
        data_dir: Path,
        cluster: str,
        *,
        services: bool | Sequence[ServiceSpec] = True,
        nats_url: str | None = None,
        redis_url: str | None = None,
        nats_listen: tuple[str, int] | None = None,
        sync_interval: SyncInterval = SyncInterval.ALWAYS,
        owner: StackOwner = StackOwner.RUN,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.cluster = cluster
        self.nats_url = nats_url or ""
        self.redis_url = redis_url or ""
        self._specs: tuple[ServiceSpec, ...] = (
            (SERVICES if services else ()) if isinstance(services, bool) else tuple(services)
        )
        self._nats_host = nats_listen[0] if nats_listen else "127.0.0.1"
        self._nats_port = nats_listen[1] if nats_listen else None
        self._sync_interval = sync_interval
        self._owner = owner
        self._external: list[MemberRecord] = []
        self._servers: list[StackMember] = []
        self._services: list[StackMember] = []
        self._supervision = Supervision(self._on_restart)
        self._phase = StackPhase.STARTING
        self._lock: int | None = None

    @property
    def processes(self) -> tuple[MemberRecord, ...]:
        """Every server and service, those of others included, as they are now."""
        return (*self._external, *(member.record() for member in self._members if member.process is not None))

    def member(self, name: str) -> StackMember:
        """Return a server or service by its name.

        Raises:
            StackError: the stack has none of that name.
        """
        for member in self._members:
            if member.name == name:
                return member
        names = ", ".join(member.name for member in self._members)
        raise StackError(f"this stack runs no {name}; it runs: {names or 'nothing'}")

    async def restart(self, name: str) -> None:
        """Stop a server or service in order and start it again; a server keeps its port."""
        await self._supervision.restart(self.member(name))

    async def __aenter__(self) -> Self:
        self._lock = _take(self.data_dir)
        try:
            self._end_remains()
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def _members(self) -> tuple[StackMember, ...]:
        return (*self._servers, *self._services)

    def _end_remains(self) -> None:
        """End what an owner killed without order left; we hold the lock, so that owner is dead."""
        try:
            left = read_state(self.data_dir)
        except StackError as error:
            # Written by another version. Its processes were tied to its owner as ours are to us.
            _log.warning("state_unreadable reason=%s", error)
            return
        survivors = end_remains(left)
        if survivors:
            pids = ", ".join(str(identity.pid) for identity in survivors)
            raise StackError(f"processes of an earlier stack in {self.data_dir} cannot be ended: {pids}")

    async def _start(self) -> None:
        logs = self.data_dir / "logs"
        nats = valkey = None
        if self.nats_url:
            self._external.append(await asyncio.to_thread(_external_nats, self.nats_url))
        else:
            nats = NatsServer(
                data_dir=self.data_dir / "nats",
                log_path=logs / "nats-server.log",
                host=self._nats_host,
                port=self._nats_port,
                sync_interval=self._sync_interval,
            )
            self._servers.append(nats)
        if self.redis_url:
            self._external.append(await asyncio.to_thread(_external_redis, self.redis_url))
        else:
            valkey = ValkeyServer(data_dir=self.data_dir / "valkey", log_path=logs / "valkey-server.log")
            self._servers.append(valkey)
        await _start_all(self._servers)
        self.nats_url = nats.url if nats else self.nats_url
        self.redis_url = valkey.url if valkey else self.redis_url
        self._record(StackPhase.STARTING)
        surroundings = ServiceSurroundings(
            cluster=self.cluster, nats_url=self.nats_url, redis_url=self.redis_url, embedded_nats=nats is not None
        )
        self._services.extend(
            ServiceProcess(spec, surroundings=surroundings, data_dir=self.data_dir) for spec in self._specs
        )
        await _start_all(self._services)
        for member in self._members:
            self._supervision.watch(member)
        self._record(StackPhase.READY)

    async def _stop(self) -> None:
        """Services first, so that they can still publish what they hold; whatever happens, all are dead at the end."""
        try:
            await self._supervision.close()
            await asyncio.gather(*(member.stop_async() for member in self._services))
            await asyncio.gather(*(member.stop_async() for member in self._servers))
        finally:
            for member in self._members:
                member.kill()
            remove_state(self.data_dir)
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _on_restart(self) -> None:
        self._record(self._phase)

    def _record(self, phase: StackPhase) -> None:
        self._phase = phase
        owner_identity = identify(os.getpid())
        assert owner_identity is not None, "this process runs"
        state = StackState(
            cluster=self.cluster,
            owner=self._owner,
            owner_identity=owner_identity,
            phase=phase,
            nats_url=self.nats_url,
            redis_url=self.redis_url,
            members=self.processes,
        )
        write_state(self.data_dir, state)


async def _start_all(members: Iterable[StackMember]) -> None:
    """Start all at the same time; the first failure ends the others' starts."""
    starts = [asyncio.create_task(member.start_async()) for member in members]
    try:
        await asyncio.gather(*starts)
    finally:
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)


def _take(data_dir: Path) -> int:
    """Lock the data folder for this process; the kernel frees it with the process's end, however that comes."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StackError(f"the data folder {data_dir} cannot be used: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StackError(f"another stack uses {data_dir}: see `phalanx status`, or choose another folder") from None
    return descriptor


def _external_nats(url: str) -> MemberRecord:
    problem = nats_problem(url, EXTERNAL_TIMEOUT_S)
    if problem is not None:
        raise StackError(f"the NATS server of NATS_URL ({without_password(url)}) does not answer: {problem}")
    return _external("nats (external)", url, HealthCheck.NATS)


def _external_redis(url: str) -> MemberRecord:
    problem = redis_problem(url, EXTERNAL_TIMEOUT_S)
    if problem is not None:
        raise StackError(f"the Redis server of REDIS_URL ({without_password(url)}) does not answer: {problem}")
    return _external("redis (external)", url, HealthCheck.REDIS)


def _external(name: str, url: str, health_check: HealthCheck) -> MemberRecord:
    return MemberRecord(name=name, identity=None, health_check=health_check, log_path=None, url=url, http_port=None)
