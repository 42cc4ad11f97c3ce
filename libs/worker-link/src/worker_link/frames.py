"""Frames on the worker socket: 4-byte big-endian length, then one JSON object in UTF-8.

Sans-IO: bytes in, objects out. Both ends and the nursery's control socket use it, so the bound holds everywhere.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

MAX_FRAME_BYTES = 64 * 1024
"""Largest JSON text of a frame on the worker socket; a step report is 80 bytes, so this leaves room for labels."""

_LENGTH = struct.Struct(">I")
_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class FrameError(ValueError):
    """The byte stream cannot be read any further; the connection has to end."""


class FrameTooLarge(FrameError):
    """A frame is longer than the limit; refused before its body is read."""


class MalformedFrame(FrameError):
    """A frame's body is not a JSON object in UTF-8."""


def encode(message: Mapping[str, Any], *, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """One frame.

    Raises:
        FrameTooLarge: the JSON text is longer than max_bytes.
        MalformedFrame: the message holds something JSON cannot say (NaN included).
    """
    try:
        body = _write(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedFrame(f"message cannot be written as JSON: {error}") from error
    if len(body) > max_bytes:
        raise FrameTooLarge(f"frame of {len(body)} bytes; at most {max_bytes} are allowed")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Collects received bytes and gives complete frames. Holds at most one frame beyond what was received at once."""

    def __init__(self, *, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Bytes received that are not part of a returned frame."""
        return len(self._buffer)

    def receive_data(self, data: bytes) -> None:
        """Add bytes as they came from the socket, in any cut."""
        self._buffer += data

    def next_message(self) -> dict[str, Any] | None:
        """The next object, or None when more bytes are needed.

        Raises:
            FrameTooLarge: the announced length is over the limit.
            MalformedFrame: the body is not a JSON object.
        """
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._max_bytes:
            raise FrameTooLarge(f"frame announces {length} bytes; at most {self._max_bytes} are allowed")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        try:
            # Decoded here, because json would guess at other encodings and let half characters pass.
            message = json.loads(body.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise MalformedFrame(f"frame is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise MalformedFrame(f"frame is a JSON {type(message).__name__}, not an object")
        return message


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
