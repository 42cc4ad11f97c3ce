"""An exception of the user's function in words: for stderr, and for the agent as the error file would say it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Collection
from types import TracebackType

from worker_link.block_messages import (
    CALLSTACK_LENGTH_MAX,
    FAULT_MESSAGE_LENGTH_MAX,
    FAULT_TYPE_LENGTH_MAX,
    BlockFaulted,
)
from worker_link.frames import FrameTooLarge, encode
from worker_link.messages import to_wire


def tell(error: BaseException, *, own_files: Collection[str]) -> None:
    """Write the traceback to stderr, as an uncaught exception would, without the frames of the block itself."""
    lines = traceback.format_exception(type(error), error, _users_frames(error, own_files))
    sys.stderr.write("worker_link: an exception left the re-executable block\n" + "".join(lines))
    sys.stderr.flush()


def fault_report(version: int, error: BaseException, step: int | None, *, own_files: Collection[str]) -> BlockFaulted:
    """The message for the agent; its traceback is cut until it fits a frame."""
    text = "".join(traceback.format_exception(type(error), error, _users_frames(error, own_files)))
    length = CALLSTACK_LENGTH_MAX
    while True:
        report = BlockFaulted(
            topology_version=version,
            error_type=type(error).__name__[:FAULT_TYPE_LENGTH_MAX],
            message=_message(error)[:FAULT_MESSAGE_LENGTH_MAX],
            callstack=text[-length:] if length else "",
            step=step,
        )
        try:
            encode(to_wire(report))
        except FrameTooLarge:  # characters that JSON writes with six bytes
            length //= 2
            continue
        return report


def shown(error: BaseException) -> str:
    """Type and message on one short line."""
    return f"{type(error).__name__}: {_message(error)}"[:512]


def _users_frames(error: BaseException, own_files: Collection[str]) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in own_files:
        trace = trace.tb_next
    return trace


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  a __str__ of the user's can raise anything
        return "(its text cannot be shown)"
