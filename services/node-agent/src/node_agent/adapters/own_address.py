"""The address at which other nodes reach this one."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"


def own_address(nats_url: str, *, nnodes: int, local_addr: str = "") -> str:
    """The given address; loopback for one node; else the address from which the bus is reached.

    Asking the kernel for the route sends nothing. A bus on loopback means that all nodes are on this machine.
    """
    if local_addr:
        return local_addr
    if nnodes == 1:
        return LOOPBACK
    first = urlsplit(nats_url.split(",")[0].strip())
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            first.hostname or LOOPBACK, first.port or 4222, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        # No route and no name service: the host's name is the best that is left, and --local-addr the way out.
        return socket.gethostname()


def owns_address(host: str) -> bool:
    """Whether a host name or address is this machine's: only then can a socket be bound to it."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            if ipaddress.ip_address(address[0]).is_unspecified:
                continue
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
            return True
        except (OSError, ValueError):
            continue
    return False
