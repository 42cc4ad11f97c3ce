"""Asks a server whether it takes clients: one short connection, never a client library's own retries."""

import http.client
import socket
from urllib.parse import urlsplit

import redis

PROBE_TIMEOUT_S = 1.0
"""On loopback an answer takes under a millisecond; a second means that the server is stuck."""

_INFO_BYTES_MAX = 64 * 1024
"""The INFO line of nats-server is about 500 bytes; a cluster adds its members' addresses."""

_START_PROBE_TIMEOUT_S = 0.25
"""For a look at a server that starts, which is repeated anyway."""

_NATS_PORT = 4222


def nats_problem(url: str, timeout_s: float = PROBE_TIMEOUT_S) -> str | None:
    """Return why none of the servers of a NATS URL (comma-separated) greets with INFO, or none when one does."""
    problems = []
    for server in url.split(","):
        parts = urlsplit(server if "://" in server else f"nats://{server}")
        address = (parts.hostname or "127.0.0.1", parts.port or _NATS_PORT)
        try:
            with socket.create_connection(address, timeout=timeout_s) as connection:
                # With "TLS first" the server is silent until the handshake: a connection is all that can be asked.
                if parts.scheme == "tls" or _greets(connection):
                    return None
                problems.append(f"{address[0]}:{address[1]} does not speak NATS")
        except OSError as error:
            problems.append(f"{address[0]}:{address[1]}: {error}")
    return "; ".join(problems)


def redis_problem(url: str, timeout_s: float = PROBE_TIMEOUT_S) -> str | None:
    """Return why a Redis or Valkey does not answer PING, or none when it does."""
    try:
        with _redis_client(url, timeout_s) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        return str(error)
    return None


def redis_server_pid(url: str) -> int | None:
    """Return the pid that a Redis or Valkey on this machine says it has, or none when it does not answer."""
    try:
        with _redis_client(url, _START_PROBE_TIMEOUT_S) as client:
            return int(client.info("server")["process_id"])
    except (redis.RedisError, OSError, KeyError, ValueError):
        # Not up yet, or not a Redis at all: in both cases not the server that is asked for.
        return None


def http_problem(port: int, path: str, timeout_s: float = PROBE_TIMEOUT_S) -> str | None:
    """Return why GET of a path on loopback is not answered with 200, or none when it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(200).decode("utf-8", errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"{path}: {str(error) or type(error).__name__}"
    finally:
        connection.close()
    return None if response.status == http.client.OK else f"{path}: {response.status} {body}".strip()


def without_password(url: str) -> str:
    """Return a URL that may be shown: user and password of every server left out."""
    return ",".join(_one_without_password(server) for server in url.split(","))


def _one_without_password(server: str) -> str:
    scheme, separator, rest = server.partition("://")
    if not separator:
        scheme, rest = "", server
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


def _redis_client(url: str, timeout_s: float) -> redis.Redis:
    # A probe is one question: whoever asks repeats it.
    return redis.Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=None)


def _greets(connection: socket.socket) -> bool:
    greeting = b""
    while b"\r\n" not in greeting and len(greeting) < _INFO_BYTES_MAX:
        chunk = connection.recv(4096)
        if not chunk:
            break
        greeting += chunk
    return greeting.startswith(b"INFO ")
