"""Which pod, container and rank a process belongs to, from what /proc says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_POD = re.compile(r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])")
"""kubelet's cgroup drivers: cgroupfs keeps the dashes of the uid, systemd writes underscores; mirror pods have none."""
_CONTAINER = re.compile(r"(?<![0-9a-f])(?P<id>[0-9a-f]{64})(?![0-9a-f])")
"""containerd, CRI-O and docker name a container by 64 hex digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOwner:
    """Empty where it is not known."""

    pod_uid: str = ""
    container_id: str = ""
    job_id: str = ""
    rank: str = ""

    def attributes(self) -> dict[str, str]:
        """What is known."""
        pairs = (
            ("pod_uid", self.pod_uid), ("container_id", self.container_id), ("job_id", self.job_id), ("rank", self.rank)
        )  # fmt: skip
        return {name: value for name, value in pairs if value}


def owner_of(cgroup: str, environ: bytes = b"") -> ProcessOwner:
    """From /proc/PID/cgroup (or the path of a cgroup alone) and /proc/PID/environ."""
    pod = _POD.search(cgroup)
    container = _CONTAINER.search(cgroup)
    names = {b"RANK", b"PHALANX_JOB_ID", b"TORCHELASTIC_RUN_ID"}
    variables = {
        name: value.decode("utf-8", errors="replace")
        for name, mark, value in (entry.partition(b"=") for entry in environ.split(b"\0"))
        if mark and name in names
    }
    rank = variables.get(b"RANK", "")
    return ProcessOwner(
        pod_uid="" if pod is None else pod["uid"].replace("_", "-"),
        container_id="" if container is None else container["id"],
        job_id=(variables.get(b"PHALANX_JOB_ID") or variables.get(b"TORCHELASTIC_RUN_ID", ""))[:256],
        rank=rank if rank.isascii() and rank.isdigit() and len(rank) <= 7 else "",
    )
