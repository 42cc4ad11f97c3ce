"""Is a file whole, by what its format promises? Bounded reads; nothing is unpickled and nothing is executed.

Sources: zip, PKWARE APPNOTE 6.3.10, 4.3.16 (end of central directory), which torch.save writes; safetensors,
github.com/huggingface/safetensors README "Format"; torch DCP, torch/distributed/checkpoint/filesystem.py
(`.metadata`, `__<rank>_<n>.distcp`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from pathlib import Path
from threading import Event

ZIP_START, ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
ZIP_END_BYTES = 22
ZIP_COMMENT_MAX = 65_535
SAFETENSORS_HEADER_MAX = 100_000_000
"""The format's own limit."""
MANIFEST = ".metadata"
MANIFEST_BYTES_MAX = 256 << 20
DCP_FILE = re.compile(r"__\d{1,7}_\d{1,7}\.distcp")
_DCP_NAME = re.compile(rb"__\d{1,7}_\d{1,7}\.distcp")
_CHUNK = 1 << 20
SIDECAR = ".sha256"
_SUM = re.compile(r"\s*\\?([0-9a-fA-F]{64})(?:\s|$)")


def torn(path: Path, size_bytes: int) -> str:
    """What is missing at the end of a file; empty when nothing is, or when its format promises nothing.

    Raises:
        OSError: it cannot be read.
    """
    if size_bytes == 0:
        return ""
    with path.open("rb") as file:
        start = file.read(8)
        if path.suffix == ".safetensors":
            return _torn_safetensors(path.name, start, file.read(min(size_bytes, SAFETENSORS_HEADER_MAX)), size_bytes)
        if start.startswith(ZIP_START):
            file.seek(-min(size_bytes, ZIP_END_BYTES + ZIP_COMMENT_MAX), os.SEEK_END)
            if ZIP_END not in file.read():
                return f"{path.name} is a zip archive (torch.save) without its end"
    return ""


def _torn_safetensors(name: str, start: bytes, rest: bytes, size_bytes: int) -> str:
    if len(start) < 8:
        return f"{name} is shorter than a header"
    [length] = struct.unpack("<Q", start)
    if length > SAFETENSORS_HEADER_MAX or length > len(rest):
        return f"{name} ends in its header"
    try:
        header = json.loads(rest[:length])
        ends = [tensor["data_offsets"][1] for key, tensor in header.items() if key != "__metadata__"]
        wanted = 8 + length + max(ends, default=0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        return f"{name} has a header that cannot be read ({type(error).__name__})"
    return "" if size_bytes == wanted else f"{name} has {size_bytes} bytes, its header promises {wanted}"


def manifest_gaps(folder: Path, sizes: dict[str, int]) -> tuple[str, ...] | None:
    """Files that a torch DCP folder should have and that are missing or empty; None: it is no such folder.

    The names are searched for in the bytes of the pickle: unpickling it would run whatever it says.

    Raises:
        OSError: the manifest cannot be read.
    """
    if MANIFEST not in sizes:
        return (MANIFEST,) if any(DCP_FILE.fullmatch(name) for name in sizes) else None
    if sizes[MANIFEST] == 0:
        return (MANIFEST,)
    with (folder / MANIFEST).open("rb") as file:
        raw = file.read(MANIFEST_BYTES_MAX)
    wanted = {found.decode() for found in _DCP_NAME.findall(raw)}
    return tuple(sorted(name for name in wanted if not sizes.get(name)))


def sum_mismatch(path: Path, stop: Event) -> str:
    """How a file differs from its sidecar; empty when it does not, or has none.

    Raises:
        OSError: it cannot be read, or nobody waits any more.
    """
    sidecar = path.with_name(path.name + SIDECAR)
    try:
        with sidecar.open("rb") as file:
            text = file.read(4_096).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    wanted = _SUM.match(text)
    if wanted is None:
        return f"{sidecar.name} holds no SHA-256 sum"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if stop.is_set():
                raise OSError("the sum was not finished in time")
            digest.update(chunk)
    if digest.hexdigest() == wanted.group(1).lower():
        return ""
    return (
        f"{path.name} has the sum {digest.hexdigest()[:12]}..., {sidecar.name} says {wanted.group(1)[:12].lower()}..."
    )
