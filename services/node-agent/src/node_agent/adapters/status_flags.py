"""The status API's flags of `phalanx run`: what they mean, and what is refused."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

from node_agent.adapters.launch_options import BadOption
from node_agent.adapters.status_options import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, StatusOptions


def add_status_flags(group: Any, flag: Callable[..., None]) -> None:
    """The flags, in a group of their own."""
    flag(
        group,
        "status-socket",
        default="",
        metavar="PATH",
        help="Unix socket of the status API, for this user alone (default: status.sock in the agent's folder), or none",
    )
    flag(group, "status-port", type=int, metavar="N", help="the same over TCP on --status-host; 0: any free port")
    flag(
        group,
        "status-host",
        default="127.0.0.1",
        metavar="ADDR",
        help=f"address of --status-port; one that is not loopback needs {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}",
    )


def read_status(given: argparse.Namespace, environ: Mapping[str, str]) -> StatusOptions:
    """Check what the flags say together.

    Raises:
        BadOption: a port that is none, an address that is none, or an open door without a token.
    """
    token, token_file = environ.get(TOKEN_VARIABLE, ""), environ.get(TOKEN_FILE_VARIABLE, "")
    if given.status_port is not None and not 0 <= given.status_port <= 65_535:
        raise BadOption(f"--status-port {given.status_port}: give a port from 0 to 65535")
    host = "127.0.0.1" if given.status_host == "localhost" else given.status_host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise BadOption(f"--status-host {host!r}: give an IP address, such as 127.0.0.1 or 0.0.0.0") from None
    if given.status_port is not None and not address.is_loopback and not (token or token_file):
        raise BadOption(
            f"--status-host {host}: logs and stacks would be readable from the network; set {TOKEN_VARIABLE} or "
            f"{TOKEN_FILE_VARIABLE}"
        )
    return StatusOptions(
        socket=given.status_socket, port=given.status_port, host=host, token=token, token_file=token_file
    )
