"""The one link for reports of this process: made once, however often a script asks for it."""

from __future__ import annotations

import os

from worker_link.client import WorkerLink

_link: WorkerLink | None = None
_path: str | None = None


def connect_process() -> WorkerLink:
    """The link of this process. A block that is executed again gets the same one, with the new generation in it."""
    global _link, _path  # noqa: PLW0603  one connection for the life of the process
    path = os.environ.get("PHALANX_WORKER_SOCKET") or None
    if _link is None or _link.closed or path != _path:
        _path = path
        _link = WorkerLink(
            socket_path=path,
            rank=int(os.environ.get("RANK", "0")),
            topology_version=int(os.environ.get("PHALANX_TOPOLOGY_VERSION") or "0"),
            token=os.environ.get("PHALANX_WORKER_TOKEN", ""),
        )
    return _link


def process_link() -> WorkerLink | None:
    """The link, when the script has asked for it."""
    return _link
