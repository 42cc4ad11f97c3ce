"""Settings that every process on the bus shares; a service subclasses `BusSettings` and adds its own.

Each field can be given by its environment variable (in brackets) or, in tests, by its name. Read in `main` only.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Storage(StrEnum):
    """Where JetStream keeps messages."""

    FILE = "file"
    MEMORY = "memory"


class LogFormat(StrEnum):
    """How log events are written to stderr."""

    AUTO = "auto"
    """Readable on a terminal, JSON elsewhere."""
    JSON = "json"
    CONSOLE = "console"


def _env(name: str, field: str) -> AliasChoices:
    return AliasChoices(name, field)


class BusSettings(BaseSettings):
    """How to reach the servers, who we are in the cluster, and where this process shows its health."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True, use_attribute_docstrings=True)

    nats_url: Annotated[str, Field(validation_alias=_env("NATS_URL", "nats_url"))] = "nats://127.0.0.1:4222"
    """[NATS_URL] Server, or several separated by commas; `nats://user:password@host:port` and `tls://` work. 4222 is
    nats-server's own default port."""
    redis_url: Annotated[str, Field(validation_alias=_env("REDIS_URL", "redis_url"))] = ""
    """[REDIS_URL] Redis or Valkey; empty: not used. Nothing true is kept there (architecture, section 5)."""
    cluster: Annotated[str, Field(validation_alias=_env("PHALANX_CLUSTER", "cluster"), min_length=1, max_length=64)] = (
        "local"
    )
    """[PHALANX_CLUSTER] Name of the cluster: a token of every subject and key, so that clusters can share a server."""

    nats_creds: Annotated[Path | None, Field(validation_alias=_env("NATS_CREDS", "nats_creds"))] = None
    """[NATS_CREDS] Credentials file (JWT and seed) for a server in operator mode."""
    nats_nkey_seed: Annotated[SecretStr | None, Field(validation_alias=_env("NATS_NKEY_SEED", "nats_nkey_seed"))] = None
    """[NATS_NKEY_SEED] Seed of a static nkey user. Better a file: an environment is inherited, and shown by /proc."""
    nats_nkey_seed_file: Annotated[
        Path | None, Field(validation_alias=_env("NATS_NKEY_SEED_FILE", "nats_nkey_seed_file"))
    ] = None
    """[NATS_NKEY_SEED_FILE] Our identity: a file of `phalanx security` (docs/security.md), or a plain NATS seed. Read
    anew at each connection, so that a rotated key needs no restart. Its name gives the reply subjects as well."""
    command_keys: Annotated[Path | None, Field(validation_alias=_env("PHALANX_COMMAND_KEYS", "command_keys"))] = None
    """[PHALANX_COMMAND_KEYS] Whose commands an agent obeys: the file `command-keys` of `phalanx security`. Given: a
    command without the signature of one of them is refused. Read anew when an unknown key turns up."""
    nats_tls_ca: Annotated[Path | None, Field(validation_alias=_env("NATS_TLS_CA", "nats_tls_ca"))] = None
    """[NATS_TLS_CA] CA bundle that signed the server's certificate; given: TLS is required."""
    nats_tls_cert: Annotated[Path | None, Field(validation_alias=_env("NATS_TLS_CERT", "nats_tls_cert"))] = None
    """[NATS_TLS_CERT] Our client certificate, where the server asks for one."""
    nats_tls_key: Annotated[Path | None, Field(validation_alias=_env("NATS_TLS_KEY", "nats_tls_key"))] = None
    """[NATS_TLS_KEY] Its private key."""
    nats_tls_first: Annotated[bool, Field(validation_alias=_env("NATS_TLS_FIRST", "nats_tls_first"))] = False
    """[NATS_TLS_FIRST] TLS handshake before the server's greeting (`handshake_first`)."""
    inbox_prefix: Annotated[
        str, Field(validation_alias=_env("NATS_INBOX_PREFIX", "inbox_prefix"), pattern=r"^_INBOX(\.[^.*>\s]+)*$")
    ] = "_INBOX"
    """[NATS_INBOX_PREFIX] First token(s) of reply subjects: `_INBOX`, or `_INBOX.name`, one name per user, or users can
    read each other's replies. Left alone it is `_INBOX.<name>` with the name in NATS_NKEY_SEED_FILE."""
    connect_limit_s: Annotated[
        float, Field(validation_alias=_env("PHALANX_CONNECT_LIMIT", "connect_limit_s"), gt=0, le=86_400)
    ] = 60.0
    """[PHALANX_CONNECT_LIMIT] Seconds to try the first connection before giving up: a server that starts beside us
    needs a few, a rescheduled pod up to a minute. A connection lost later is retried for ever."""
    publish_limit_s: Annotated[
        float, Field(validation_alias=_env("PHALANX_PUBLISH_LIMIT", "publish_limit_s"), gt=0, le=600)
    ] = 10.0
    """[PHALANX_PUBLISH_LIMIT] Seconds until a publish that nobody acknowledged fails. A JetStream leader election was
    measured at up to 7.9 s, so 10 outlasts one."""

    stream_replicas: Annotated[
        int, Field(validation_alias=_env("PHALANX_STREAM_REPLICAS", "stream_replicas"), ge=1, le=5)
    ] = 1
    """[PHALANX_STREAM_REPLICAS] 1 on a single server, 3 on a cluster."""
    stream_storage: Annotated[Storage, Field(validation_alias=_env("PHALANX_STREAM_STORAGE", "stream_storage"))] = (
        Storage.FILE
    )
    """[PHALANX_STREAM_STORAGE] file | memory; memory forgets everything with the server."""
    stream_bytes_max: Annotated[
        int, Field(validation_alias=_env("PHALANX_STREAM_BYTES_MAX", "stream_bytes_max"), ge=1 << 20)
    ] = 1 << 30
    """[PHALANX_STREAM_BYTES_MAX] Upper limit of one stream's size, below what the registry asks for. nats-server
    reserves the limits of all streams on its disk, and a quarter of it for each bucket: 1 GiB fits a laptop; thousands
    of nodes want 4 GiB. Embedded servers (`phalanx run`, `up`, `demo`) use 112 MiB unless this is set: 1.25 GiB of free
    disk is enough for them."""

    http_host: Annotated[str, Field(validation_alias=_env("PHALANX_HTTP_HOST", "http_host"))] = "127.0.0.1"
    """[PHALANX_HTTP_HOST] Address of /livez /readyz /metrics. Loopback: who wants them outside says so."""
    http_port: Annotated[int, Field(validation_alias=_env("PHALANX_HTTP_PORT", "http_port"), ge=0, le=65_535)] = 0
    """[PHALANX_HTTP_PORT] 0: the system chooses; the ready file tells."""
    http_token_file: Annotated[
        Path | None, Field(validation_alias=_env("PHALANX_HTTP_TOKEN_FILE", "http_token_file"))
    ] = None
    """[PHALANX_HTTP_TOKEN_FILE] File with what a scraper on another machine must bring (`Authorization: Bearer TOKEN`,
    at least 16 characters). Without it other machines see /livez and a bare /readyz, unless the next setting says."""
    http_metrics_open: Annotated[
        bool, Field(validation_alias=_env("PHALANX_HTTP_METRICS_OPEN", "http_metrics_open"))
    ] = False
    """[PHALANX_HTTP_METRICS_OPEN] Without a token file: show /metrics and the checks of /readyz to whoever reaches the
    port. The images say true: there the network decides who does (a compose network, a NetworkPolicy)."""
    ready_file: Annotated[Path | None, Field(validation_alias=_env("PHALANX_READY_FILE", "ready_file"))] = None
    """[PHALANX_READY_FILE] Written as JSON {pid, http_port, ready_at} once the service does its work."""
    log_level: Annotated[
        str, Field(validation_alias=_env("PHALANX_LOG_LEVEL", "log_level"), pattern="^(debug|info|warning|error)$")
    ] = "info"
    """[PHALANX_LOG_LEVEL] debug | info | warning | error."""
    log_format: Annotated[LogFormat, Field(validation_alias=_env("PHALANX_LOG_FORMAT", "log_format"))] = LogFormat.AUTO
    """[PHALANX_LOG_FORMAT] auto | json | console."""
    stop_limit_s: Annotated[float, Field(validation_alias=_env("PHALANX_STOP_LIMIT", "stop_limit_s"), gt=0, le=600)] = (
        10.0
    )
    """[PHALANX_STOP_LIMIT] Seconds that a handler in hand gets at shutdown before it is cancelled (and redelivered to
    somebody else). Under Kubernetes' default grace of 30 s."""

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        given = [
            name for name in ("nats_creds", "nats_nkey_seed", "nats_nkey_seed_file") if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are given; one identity is enough")
        if (self.nats_tls_cert is None) != (self.nats_tls_key is None):
            raise ValueError("nats_tls_cert and nats_tls_key go together")
        return self
