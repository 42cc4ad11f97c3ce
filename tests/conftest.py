"""Real servers for the tests, started through the stack's own code on free loopback ports.

`nats_server` and `valkey_server` are shared by the whole run: name streams, subjects and keys after your
test (`unique_name`).
`fresh_nats` and `fresh_valkey` belong to one test, which may kill and restart them.
"""

import re
import zlib
from collections.abc import Iterator

import pytest

from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from phalanx_cli.stack.valkey_server import ValkeyServer


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A nats-server for the whole run: .url .port .pid .config; do not kill or restart it."""
    server = NatsServer(data_dir=tmp_path_factory.mktemp("nats"), sync_interval=SyncInterval.DEFAULT)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A Valkey for the whole run: .url .port .pid; do not kill or restart it, do not flush it."""
    server = ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fresh_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A nats-server of your own, fsync on: .kill() is SIGKILL, .start() brings it back on the same port and data."""
    server = NatsServer(data_dir=tmp_path_factory.mktemp("fresh-nats"), sync_interval=SyncInterval.ALWAYS)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fresh_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A Valkey of your own, empty; .restart() brings back an empty one on the same port."""
    server = ValkeyServer(data_dir=tmp_path_factory.mktemp("fresh-valkey"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> str:
    """A name for streams, clusters and keys that no other test uses: lower-case letters, digits and hyphens."""
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    return f"{readable}-{zlib.crc32(request.node.nodeid.encode()):08x}"
