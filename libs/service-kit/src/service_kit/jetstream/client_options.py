"""Our settings as options of nats-py, and why each of its defaults is not good enough."""

from __future__ import annotations

import re
import ssl
from typing import Any

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


def client_options(settings: BusSettings, *, name: str) -> dict[str, Any]:
    """Everything that nats-py is told but its callbacks."""
    options: dict[str, Any] = {
        "servers": [url.strip() for url in settings.nats_url.split(",") if url.strip()],
        "name": name,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_WAIT_S,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "ping_interval": PING_INTERVAL_S,
        "max_outstanding_pings": PINGS_OUTSTANDING_MAX,
        "drain_timeout": CLOSE_LIMIT_S,
        "inbox_prefix": settings.inbox_prefix,
    }
    if settings.nats_creds is not None:
        options["user_credentials"] = str(settings.nats_creds)
    if settings.nats_nkey_seed is not None:
        options["nkeys_seed_str"] = settings.nats_nkey_seed.get_secret_value()
    if settings.nats_tls_ca is not None or settings.nats_tls_cert is not None:
        context = ssl.create_default_context(cafile=settings.nats_tls_ca)
        if settings.nats_tls_cert is not None:
            context.load_cert_chain(settings.nats_tls_cert, settings.nats_tls_key)
        options["tls"] = context
        options["tls_handshake_first"] = settings.nats_tls_first
    return options


def shown_url(url: str) -> str:
    """The URL without a password."""
    return re.sub(r"//[^@/,]*@", "//***@", url)
