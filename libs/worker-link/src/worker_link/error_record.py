"""Writes the error file of an uncaught exception, in the layout of torch's ErrorHandler.

torchrun scripts get it from `@record`; this covers scripts without it, and never replaces a file that exists.
Layout: torch/distributed/elastic/multiprocessing/errors/error_handler.py of torch 2.13.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from types import TracebackType

CALLSTACK_LENGTH_MAX = 64 * 1024
"""Characters of traceback kept; the agent reads at most 256 KB and the innermost frames are at the end."""
MESSAGE_LENGTH_MAX = 16 * 1024


def record_exception(error: BaseException, trace: TracebackType | None) -> str | None:
    """Write the file named by TORCHELASTIC_ERROR_FILE unless it is there already.

    Never raises: the exception of the user's script matters more than its record.

    Returns:
        Why nothing could be written, or None.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):
        return None
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
        message = f"{type(error).__name__}: {error}"
        record = {
            "message": {
                "message": message[:MESSAGE_LENGTH_MAX],
                "extraInfo": {
                    "py_callstack": text[-CALLSTACK_LENGTH_MAX:],
                    "timestamp": str(time.time_ns() // 1_000_000_000),
                },
            }
        }
        # Written aside and renamed, so that a worker killed half-way leaves no torn file under the real name.
        draft = f"{path}.{os.getpid()}"
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # the script may have removed it
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.replace(draft, path)
    except Exception as failure:  # noqa: BLE001  a __str__ of the user's exception can raise anything
        return f"error file {path} not written: {failure}"
    return None
