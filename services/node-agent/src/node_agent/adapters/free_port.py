"""A port for rank 0's store, reserved by holding it: bound, never listening.

Linux lets a second socket bind and listen on a port when both set SO_REUSEADDR and the first does not listen. torch's
TCPStore sets it (libuv and legacy backend, tried with torch 2.13), so the socket stays open while rank 0 uses the
port, and no other program is given it in between.
"""

from __future__ import annotations

import socket


class ReservedPort:
    """application.control_ports.MasterPort."""

    def __init__(self) -> None:
        self._socket = _reserve()

    @property
    def number(self) -> int:
        """The port reserved now."""
        return int(self._socket.getsockname()[1])

    def renew(self) -> int:
        """Reserve a fresh port, then let go of the old one, so that the new one differs."""
        old, self._socket = self._socket, _reserve()
        old.close()
        return self.number

    def close(self) -> None:
        """Let go."""
        self._socket.close()


def _reserve() -> socket.socket:
    """A bound socket on all addresses.

    Raises:
        OSError: no port is free.
    """
    try:
        return _bound(socket.AF_INET6, "::")
    except OSError:
        # A kernel without IPv6.
        return _bound(socket.AF_INET, "0.0.0.0")  # noqa: S104 - nothing listens on it


def _bound(family: socket.AddressFamily, address: str) -> socket.socket:
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        held.bind((address, 0))
    except OSError:
        held.close()
        raise
    return held
