"""Listens for the status API, and loads it when the first client comes. Until then it costs a descriptor.

The import runs in a thread and the server in the agent's own loop; uvicorn's main loop, with its signal handlers and
its ten wake-ups a second, is not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from node_agent.adapters.status_options import OFF, StatusOptions
from node_agent.adapters.worker_socket import SOCKET_PATH_BYTES_MAX, private_folder
from service_kit.logging import get_logger
from service_kit.web.guard import Door
from service_kit.web.token import BearerToken

BACKLOG = 16
"""Connects that the kernel holds while the API is being imported."""
STOP_LIMIT_S = 1.0
SOCKET_NAME = "status.sock"

log = get_logger(__name__)


class Site(Protocol):
    """The loaded API: makes connections for one door."""

    def connection(self, door: Door) -> asyncio.Protocol:
        """A protocol for the next client."""

    async def stop(self, limit_s: float) -> None:
        """End all connections."""


@dataclass(slots=True, kw_only=True)
class Listener:
    """One bound socket."""

    sock: socket.socket
    door: Door
    shown: str
    """For the person's terminal."""
    path: Path | None = None
    inode: int = 0
    own_folder: Path | None = None
    """Made for this socket alone."""


@dataclass(slots=True)
class StatusServer:
    """Has its sockets from `bind`; `start` waits for the first client."""

    load: Callable[[], Site]
    notice: Callable[[str], None]
    listeners: list[Listener]
    _servers: list[asyncio.Server] = field(default_factory=list)
    _site: Site | None = None
    _loading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen; the first connect loads the rest."""
        loop = asyncio.get_running_loop()
        for listener in self.listeners:
            listener.sock.listen(BACKLOG)
            loop.add_reader(listener.sock.fileno(), self._first_client)

    def _first_client(self) -> None:
        self._stop_waiting()
        self._loading = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            site = self._site = await asyncio.to_thread(self.load)
            for listener in self.listeners:
                self._servers.append(await loop.create_server(_factory(site, listener.door), sock=listener.sock))
        except Exception as error:
            # An installation without fastapi, or a broken one. Training has nothing to do with it.
            log.exception("status_api_failed")
            self.notice(f"the status API cannot be served: {type(error).__name__}: {error}")
            for listener in self.listeners:
                listener.sock.close()

    def _stop_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        for listener in self.listeners:
            if listener.sock.fileno() >= 0:
                loop.remove_reader(listener.sock.fileno())

    async def close(self) -> None:
        """Listen no more, end the clients, and take the socket's name away."""
        self._stop_waiting()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for server in self._servers:
            server.close()
        if self._site is not None:
            await self._site.stop(STOP_LIMIT_S)
        for listener in self.listeners:
            listener.sock.close()
            _unlink(listener)


def bind(options: StatusOptions, token: BearerToken | None, folder: Path) -> list[Listener]:
    """Bind what was asked for.

    Raises:
        OSError: an address is taken or not ours; the message says which.
    """
    listeners: list[Listener] = []
    try:
        if options.socket not in ("", OFF):
            listeners.append(_bind_unix(Path(options.socket).absolute()))
        elif not options.socket:
            listeners.append(_bind_default(folder / SOCKET_NAME))
        if options.port is not None:
            listeners.append(_bind_tcp(options, token))
    except OSError:
        for listener in listeners:
            listener.sock.close()
            _unlink(listener)
        raise
    return listeners


def _factory(site: Site, door: Door) -> Callable[[], asyncio.Protocol]:
    return lambda: site.connection(door)


def _bind_default(path: Path) -> Listener:
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return _bind_unix(path)
    folder = private_folder()
    listener = _bind_unix(folder / SOCKET_NAME)
    listener.own_folder = folder
    return listener


def _bind_unix(path: Path) -> Listener:
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_BYTES_MAX:
        raise OSError(
            f"the status socket {path}: a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes, not {size}"
        )
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.bind(str(path))
        # Nobody can connect before `listen`, so there is no moment in which it is open to others.
        path.chmod(0o600)
    except OSError as error:
        sock.close()
        raise OSError(f"the status socket {path}: {error.strerror or error}") from error
    return Listener(
        sock=sock,
        door=Door(token=None, by_name=True),
        shown=f"curl --unix-socket {path} http://agent/status",
        path=path,
        inode=path.stat().st_ino,
    )


def _bind_tcp(options: StatusOptions, token: BearerToken | None) -> Listener:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((options.host, options.port or 0))
    except OSError as error:
        sock.close()
        raise OSError(f"--status-port {options.port} on {options.host}: {error.strerror or error}") from error
    host = f"[{options.host}]" if family == socket.AF_INET6 else options.host
    wanted = "" if token is None else " (with its token)"
    return Listener(
        sock=sock,
        door=Door(token=token, by_name=token is not None),
        shown=f"http://{host}:{sock.getsockname()[1]}/status{wanted}",
    )


def _remove_stale(path: Path) -> None:
    """A socket that nobody listens on is left over from a killed agent; anything else is not ours to remove."""
    if not path.is_socket():
        if path.exists():
            raise OSError(f"the status socket {path}: there is a file of that name already")
        return
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        probe.connect(str(path))
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"the status socket {path}: {error.strerror or error}") from error
    else:
        raise OSError(f"the status socket {path}: another process listens there")
    finally:
        probe.close()


def _unlink(listener: Listener) -> None:
    """Only the name that is still ours: another run may have taken the path since."""
    if listener.path is None:
        return
    with contextlib.suppress(OSError):  # removed by somebody else: that is what was wanted
        if os.stat(listener.path).st_ino == listener.inode:
            listener.path.unlink()
    if listener.own_folder is not None:
        shutil.rmtree(listener.own_folder, ignore_errors=True)
