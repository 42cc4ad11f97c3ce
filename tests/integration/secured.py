"""A nats-server that runs on what `phalanx security` writes: TLS, identities, generated permissions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from fault_contracts.permissions import Holder, Role
from phalanx_cli.security.folder import SecurityFolder, ServerPlace
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval, nats_server_binary
from service_kit.jetstream.connection import Connection, connect
from service_kit.settings import BusSettings

CLUSTER = "safe"
NOW = datetime(2026, 12, 1, tzinfo=UTC)


class SecuredServer(NatsServer):
    """Its ports are free ones; all else is the generated nats.conf."""

    def __init__(self, *, data_dir: Path, folder: SecurityFolder) -> None:
        super().__init__(data_dir=data_dir, sync_interval=SyncInterval.DEFAULT)
        self.folder = folder

    @property
    def tls_url(self) -> str:
        return f"tls://127.0.0.1:{self.port}"

    def _configure(self) -> tuple[str, ...]:
        for stale in self.data_dir.glob("*.ports"):
            stale.unlink()
        listen = f"127.0.0.1:{self._port or -1}"
        text = (self.folder.path / "nats.conf").read_text().replace("127.0.0.1:-1", listen)
        path = self.folder.path / "test.conf"
        path.write_text(text + f'\nhttp: "127.0.0.1:-1"\nports_file_dir: "{self.data_dir}"\n')
        return str(nats_server_binary()), "-c", str(path)


def make_folder(path: Path, holders: Sequence[Holder] = ()) -> SecurityFolder:
    """An identity for each service, and those of `holders`."""
    folder = SecurityFolder(path / "certs")
    place = ServerPlace(listen="127.0.0.1:-1", folder=str(folder.path), store=str(path / "jetstream"))
    now = datetime.now(UTC)  # noqa: DTZ - certificates are judged by the real clock
    folder.create(cluster=CLUSTER, hosts=["localhost", "127.0.0.1"], place=place, now=now)
    folder.add(holders, now)
    return folder


def settings_of(server: SecuredServer, name: str) -> BusSettings:
    return BusSettings(
        nats_url=server.tls_url,
        cluster=CLUSTER,
        nats_tls_ca=server.folder.path / "ca.crt",
        nats_nkey_seed_file=server.folder.identity_path(name),
        command_keys=server.folder.path / "command-keys",
        stream_bytes_max=64 << 20,
        connect_limit_s=10,
    )


async def sign_in(server: SecuredServer, holder: Holder | Role) -> Connection:
    name = holder.name if isinstance(holder, Holder) else str(holder)
    return await connect(settings_of(server, name), name=name)
