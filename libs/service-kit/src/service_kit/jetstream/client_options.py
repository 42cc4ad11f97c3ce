"""Our settings as options of nats-py, and why each of its defaults is not good enough."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import Any

from service_kit.errors import PermanentError
from service_kit.identity import INBOX_ROOT, Identity, read_identity
from service_kit.logging import get_logger
from service_kit.nkey import BadKey, user_key
from service_kit.settings import BusSettings

RECONNECT_WAIT_S = 0.25
"""Between two attempts on a lost connection, less up to half as jitter: a restarted server is found quickly, and a
thousand agents do not knock in step."""
CONNECT_TIMEOUT_S = 2
PING_INTERVAL_S = 5
"""A server that is stopped but keeps its sockets is given up after two unanswered pings."""
PINGS_OUTSTANDING_MAX = 2
CLOSE_LIMIT_S = 5.0
"""For the drain at the end; what is not flushed then is redelivered or retried by its owner."""

log = get_logger(__name__)


def who_we_are(settings: BusSettings) -> Identity | None:
    """The key that we sign in with, as it is now; None: by the URL, a credentials file or a certificate.

    Raises:
        PermanentError: the seed or its file is not usable.
    """
    if settings.nats_nkey_seed_file is not None:
        return read_identity(settings.nats_nkey_seed_file)
    if settings.nats_nkey_seed is None:
        return None
    try:
        return Identity(name="", key=user_key(settings.nats_nkey_seed.get_secret_value().strip()))
    except BadKey as error:
        raise PermanentError(f"NATS_NKEY_SEED is {error}") from None


def client_options(settings: BusSettings, *, name: str, identity: Identity | None = None) -> dict[str, Any]:
    """Everything that nats-py is told but its callbacks.

    Raises:
        PermanentError: a file of TLS is not usable.
    """
    prefix = settings.inbox_prefix
    if identity is not None and prefix == INBOX_ROOT:
        prefix = identity.inbox_prefix
    options: dict[str, Any] = {
        "servers": [url.strip() for url in settings.nats_url.split(",") if url.strip()],
        "name": name,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_WAIT_S,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "ping_interval": PING_INTERVAL_S,
        "max_outstanding_pings": PINGS_OUTSTANDING_MAX,
        "drain_timeout": CLOSE_LIMIT_S,
        "inbox_prefix": prefix,
    }
    if settings.nats_creds is not None:
        options["user_credentials"] = str(settings.nats_creds)
    if settings.nats_tls_ca is not None or settings.nats_tls_cert is not None:
        options["tls"] = _tls_context(settings)
        options["tls_handshake_first"] = settings.nats_tls_first
    return options


def _tls_context(settings: BusSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.nats_tls_ca)
    except OSError as error:
        raise PermanentError(f"NATS_TLS_CA {settings.nats_tls_ca} cannot be used: {error}") from error
    if settings.nats_tls_cert is not None:
        try:
            context.load_cert_chain(settings.nats_tls_cert, settings.nats_tls_key)
        except OSError as error:
            raise PermanentError(f"NATS_TLS_CERT {settings.nats_tls_cert} cannot be used: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def ca_refresher(settings: BusSettings, options: dict[str, Any]) -> Callable[[], None]:
    """Trusts what was added to the CA bundle since: before each attempt, so that a CA can be rotated under us."""

    def refresh() -> None:
        try:
            options["tls"].load_verify_locations(settings.nats_tls_ca)
        except OSError as error:
            # Half written, perhaps; what we trusted so far still counts.
            log.warning("ca_not_read", path=str(settings.nats_tls_ca), error=str(error))

    return refresh if settings.nats_tls_ca is not None else lambda: None


def shown_url(url: str) -> str:
    """The URL without a password."""
    return re.sub(r"//[^@/,]*@", "//***@", url)
