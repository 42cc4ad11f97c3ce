"""What a path tells of the lines in it: rank, node, stream, and whether the rank is a local one.

Only the part below what the person named counts, and the innermost word wins: rank_3/stderr.log, node01_rank_3.err,
attempt_0/3/stdout.log, job.node01.3, dmesg-node01.txt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from fault_attribution.evidence_line import Source

PARTS_READ = 6
"""Innermost parts of a path; a rank does not stand further out."""
_RANK = re.compile(
    r"(?<![a-z])(?P<kind>(?:node|local|global)[_-]?)?(?:rank|worker|task|trainer|proc(?:ess)?)[._-]?(?P<rank>\d{1,6})(?!\d)",
    re.IGNORECASE,
)
_STREAM_RANK = re.compile(
    r"^(?:std)?(?:out|err|log|stdout|stderr|output|error)[._-](?P<rank>\d{1,6})(?:\.|$)", re.IGNORECASE
)
_SLURM_TASK = re.compile(
    r"^.+[._-](?P<node>[a-z][a-z0-9-]*?\d[a-z0-9-]*)[._-](?P<rank>\d{1,6})(?:\.(?:out|err|log|txt|o|e))?$",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"^(?P<rank>\d{1,5})\.(?:out|err|log|txt|stdout|stderr)$", re.IGNORECASE)
_ATTEMPT = re.compile(r"^attempt_\d+$")
_SLURM_JOB = re.compile(r"^slurm[-_]\d+(?:_\d+)?\.(?:out|err)$", re.IGNORECASE)
_STDERR = re.compile(r"(?:^|[._-])(?:stderr|err|e)(?:[._-]|$)", re.IGNORECASE)
_STDOUT = re.compile(r"(?:^|[._-])(?:stdout)(?:[._-]|$)", re.IGNORECASE)
_HOST = re.compile(
    r"^(?:(?:ip|node|host|machine|server|compute|gpu|dgx|hgx|rack|h100|h200|a100|b200|p4d|p5|gke|aks|eks|trn)"
    r"(?:-[a-z0-9]+)*-?[a-z]{0,4}\d[a-z0-9]*(?:-[a-z0-9]+)*|(?:n|c|cn|gn|sn)\d[a-z0-9]*(?:-[a-z0-9]+)*)$",
    re.IGNORECASE,
)
"""Names that machines are given. A folder may be called llama-3, too, so not every word with a number is a host."""
_WHAT = re.compile(
    r"^(?:dmesg|kmsg|kern|kernel|journal|journalctl|syslog|nvidia-smi|smi|dcgm|log|slurmd)-", re.IGNORECASE
)
_WHAT_BEHIND = re.compile(
    r"-(?:dmesg|kmsg|kern|kernel|journal|journalctl|syslog|smi|nvidia-smi|dcgm|log|slurmd|console)$"
)
_KERNEL_WORD = re.compile(r"(?:^|[._-])(?:dmesg|kmsg|kern|kernel)(?:[._-]|\d|$)", re.IGNORECASE)
_CLUSTER_WORD = re.compile(
    r"(?:^|[._-])(?:slurmctld|slurmd|slurmdbd|kubelet|k8s|kube|events)(?:[._-]|$)", re.IGNORECASE
)
_GPU_WORD = re.compile(r"(?:^|[._-])(?:nvidia-smi|nvidia_smi|nvsmi|smi|dcgm|dcgmi|nvml)(?:[._-]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathHints:
    """What was read off a path; empty and None are unknown.

    Attributes:
        launch: the folder of one torchrun or Phalanx agent, whose ranks are local ones.
    """

    source: Source = Source.UNKNOWN
    node: str = ""
    rank: int | None = None
    local_rank: int | None = None
    launch: str = ""


def path_hints(name: str) -> PathHints:
    """Read a path, or the name of a member of an archive."""
    parts = [part for part in PurePosixPath(name.replace("!", "/").replace("\\", "/")).parts if part not in ("/", "..")]
    file, folders = (parts[-1] if parts else ""), parts[:-1][-PARTS_READ:]
    launch, local = _attempt(parts)
    rank, named_local, node = _from_file(file)
    if rank is None and named_local is None and not _SLURM_JOB.match(file):
        rank, named_local = _from_folders(folders)
    if local is not None:
        rank, named_local = None, local
    return PathHints(
        source=_source(file),
        node=node or _host_in(_stem(file)) or next((host for part in reversed(folders) if (host := _host(part))), ""),
        rank=rank,
        local_rank=named_local,
        launch=launch,
    )


def _attempt(parts: list[str]) -> tuple[str, int | None]:
    """Folder before `attempt_N` and the local rank behind it, in torchrun's layout."""
    for at, part in enumerate(parts[:-1]):
        if _ATTEMPT.match(part):
            behind = parts[at + 1]
            return "/".join(parts[:at]), int(behind) if behind.isdigit() and len(behind) < 6 else None
    return "", None


def _from_file(file: str) -> tuple[int | None, int | None, str]:
    """Global rank, local rank and node in a file's name."""
    if _SLURM_JOB.match(file):
        return None, None, ""
    if host := _host(_bare(_stem(file))):
        return None, None, host  # gpu-worker-19 is a machine, worker-19 a rank
    if (ranked := _ranked(file)) is not None:
        return *ranked, ""
    if (task := _SLURM_TASK.match(file)) and _host(task["node"]):
        return int(task["rank"]), None, task["node"]
    for pattern in (_STREAM_RANK, _BARE_NUMBER):
        if found := pattern.match(file):
            return int(found["rank"]), None, ""
    return None, None, ""


def _from_folders(folders: list[str]) -> tuple[int | None, int | None]:
    for part in reversed(folders):
        if found := _ranked(part):
            return found
    return None, None


def _ranked(text: str) -> tuple[int | None, int | None] | None:
    for found in _RANK.finditer(text):
        kind = (found["kind"] or "").lower()
        if kind.startswith("node"):
            continue
        rank = int(found["rank"])
        return (None, rank) if kind.startswith("local") else (rank, None)
    return None


def _source(file: str) -> Source:
    if _KERNEL_WORD.search(file):
        return Source.KMSG
    if _GPU_WORD.search(file):
        return Source.NVML
    if _CLUSTER_WORD.search(file):
        return Source.K8S
    if _STDERR.search(file):
        return Source.WORKER_STDERR
    return Source.WORKER_STDOUT if _STDOUT.search(file) else Source.UNKNOWN


def _stem(file: str) -> str:
    return re.sub(r"\.(?:out|err|log|txt|json|jsonl|yaml|yml|stdout|stderr|\d{1,20})+$", "", file, flags=re.IGNORECASE)


def _host_in(stem: str) -> str:
    """The word of a file's name that looks like a host, beside words that say what the file is."""
    for word in re.split(r"[._]", stem):
        if host := _host(_bare(word)):
            return host
    return ""


def _bare(word: str) -> str:
    """Without what the file is of: dmesg-node17, node17-dmesg."""
    return _WHAT_BEHIND.sub("", _WHAT.sub("", word))


def _host(word: str) -> str:
    return word if _HOST.match(word) and not _RANK.fullmatch(word) else ""
