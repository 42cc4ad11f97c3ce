"""Lets rank 0 open its store before the other ranks knock.

torch's TCPStore client that is refused waits before it knocks again: ranks that came 30 ms before rank 0 were measured
to lose 0.36 to 0.51 s (torch 2.13, two ranks forked on one machine), more than everything else in a restart together.
Ranks of a restart start within milliseconds of each other, in no order; so each one but rank 0 looks for the store
here, every two milliseconds, before its program runs.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

WAIT_S_MAX = 0.3
"""A rank 0 that opens its store later than this has something else to do first; then there is nothing to gain here."""
LOOK_EVERY_S = 0.002
PORT_MAX = 65_535


def wait_for_store(env: Mapping[str, str], *, wait_s_max: float = WAIT_S_MAX) -> bool:
    """Wait until something listens at MASTER_ADDR:MASTER_PORT; returns whether it was seen.

    Rank 0, which opens the store, and a process without these variables do not wait. Never raises: whatever is wrong
    with the address is the script's to find, in its own words.
    """
    address, port = env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", "")
    if env.get("RANK", "0") == "0" or not address or not port.isdecimal() or int(port) > PORT_MAX:
        # A port above the largest is cut to 16 bits by some C libraries, and would be knocked at in vain.
        return False
    end_s = time.monotonic() + wait_s_max
    while (left_s := end_s - time.monotonic()) > 0:
        try:
            socket.create_connection((address, int(port)), timeout=left_s).close()
        except ConnectionRefusedError:
            time.sleep(LOOK_EVERY_S)
        except OSError:
            return False
        else:
            return True
    return False
