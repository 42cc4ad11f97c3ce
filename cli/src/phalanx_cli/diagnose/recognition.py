"""What an input is, from its first lines: names only help where the lines say nothing.

A format is taken for what it is only when most lines of the beginning have it; everything else is plain text, whose
lines are read one by one all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from fault_attribution.evidence_line import Source

SAMPLE_LINES = 200
LINE_CHARS = 2_000
"""Of a line of the sample; both bounds keep any text, however odd, from making the patterns slow."""


class InputKind(StrEnum):
    """Kinds, in the words of the report."""

    INCIDENT = "incident file"
    ERROR_FILE = "error file of torchrun"
    JOURNAL_JSON = "journal, JSON"
    CONTAINER_JSON = "container log, JSON"
    KUBERNETES_OBJECTS = "Kubernetes objects"
    KUBERNETES_EVENTS = "Kubernetes events, table"
    KUBERNETES_DESCRIBE = "Kubernetes description"
    POD_LOGS = "pod logs"
    NVSMI_QUERY = "nvidia-smi -q"
    NVSMI_TABLE = "nvidia-smi, columns"
    GPU_TEXT = "GPU readings"
    KERNEL_LOG = "kernel log"
    JOURNAL = "journal or syslog"
    SLURM_CONTROL = "Slurm daemon log"
    SRUN = "srun with task labels"
    CONSOLE = "console of torchrun or Phalanx"
    RANK_LOG = "log of a rank"
    PLAIN = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A kind and the source of its lines, where all have one."""

    kind: InputKind
    source: Source = Source.UNKNOWN


_DOCUMENTS: tuple[tuple[re.Pattern[str], InputKind, Source], ...] = (
    (re.compile(r'^(?:"?evidence"?:|\{?\s*"evidence"\s*:)', re.MULTILINE), InputKind.INCIDENT, Source.UNKNOWN),
    (re.compile(r'"MESSAGE" ?:.*"_(?:BOOT_ID|HOSTNAME|TRANSPORT)"|"_(?:BOOT_ID|HOSTNAME|TRANSPORT)" ?:.*"MESSAGE"'),
     InputKind.JOURNAL_JSON, Source.UNKNOWN),
    (re.compile(r'^\{"log": ?".*"stream": ?"std(?:out|err)"', re.MULTILINE), InputKind.CONTAINER_JSON, Source.UNKNOWN),
    (re.compile(r'^\s*"?apiVersion"?: *"?(?:v1|events\.k8s\.io/v1|[\w.]+/v\w+)"?', re.MULTILINE),
     InputKind.KUBERNETES_OBJECTS, Source.K8S),
    (re.compile(r"^(?:NAMESPACE +)?(?:LAST SEEN|LASTSEEN|FIRST SEEN) +", re.MULTILINE),
     InputKind.KUBERNETES_EVENTS, Source.K8S),
    (re.compile(r"^Name: +\S.*(?:\n.*){0,60}^(?:Containers|Events|Conditions|Node|Status): *", re.MULTILINE),
     InputKind.KUBERNETES_DESCRIBE, Source.K8S),
    (re.compile(r"^=+NVSMI LOG=+", re.MULTILINE), InputKind.NVSMI_QUERY, Source.NVML),
    (re.compile(r"\| NVIDIA-SMI \d|^(?:# (?:HELP|TYPE) )?DCGM_FI_\w+[ {]|^\| (?:GPU ID|Diagnostic|Overall Health)",
                re.MULTILINE),
     InputKind.GPU_TEXT, Source.NVML),
)  # fmt: skip
_NVSMI_COLUMN = re.compile(
    r"^(?:index|name|uuid|gpu_uuid|gpu_name|timestamp|count|serial|driver_version|[a-z_]+\.[\w.]+)(?: \[[^\]]+\])?$"
)
_ERROR_FILE = re.compile(r'^\s*\{\s*"message"\s*:')
_LINES: tuple[tuple[re.Pattern[str], float, InputKind, Source], ...] = (
    (re.compile(r"^\[pod/[^\]]+\] ?"), 0.5, InputKind.POD_LOGS, Source.UNKNOWN),
    (re.compile(r"^(?:<\d+>)?\[ *\d+\.\d{3,9}\] (?!\S+ \S+?(?:\[\d+\])?: )|^(?:<\d+>)?\[ *\d+\.\d{6}\] "
                r"|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] |^\d+,\d+,\d+,[^;]{0,40};|^<\d>\[?"),
     0.4, InputKind.KERNEL_LOG, Source.KMSG),
    (re.compile(r"^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:error|debug\d?|warning|sched|info|fatal|_slurm|Node"
                r"|update_node|slurm|job_|\w+: )"),
     0.6, InputKind.SLURM_CONTROL, Source.K8S),
    (re.compile(r"^(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?:\.\d+)?|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)"
                r"|\[ *\d+\.\d+\]) \S+ [A-Za-z][\w./@()-]*(?:\[\d+\])?: "), 0.5, InputKind.JOURNAL, Source.UNKNOWN),
    (re.compile(r"^ *\d{1,6}: "), 0.7, InputKind.SRUN, Source.UNKNOWN),
    (re.compile(r"^\[(?:[a-z_]*\d{1,5}|rank ?\d+)\]:? ?", re.IGNORECASE), 0.3, InputKind.CONSOLE, Source.UNKNOWN),
)  # fmt: skip


def recognise(text: str, hinted: Source, *, of_rank: bool) -> Recognised:
    """Recognise an input.

    Args:
        text: its beginning.
        hinted: source that its name tells.
        of_rank: its name tells a rank.
    """
    lines = [line[:LINE_CHARS] for line in text.splitlines() if line.strip()][:SAMPLE_LINES]
    sample = "\n".join(lines)
    for pattern, kind, source in _DOCUMENTS:
        if pattern.search(sample):
            return Recognised(kind=kind, source=source)
    if _ERROR_FILE.match(sample) and ('"extraInfo"' in text or '"errorTraits"' in text or text.rstrip().endswith("}")):
        return Recognised(kind=InputKind.ERROR_FILE, source=Source.WORKER_STDERR)
    if lines and _is_nvsmi_table(lines[0]):
        return Recognised(kind=InputKind.NVSMI_TABLE, source=Source.NVML)
    for line_pattern, share, kind, source in _LINES:
        if lines and sum(line_pattern.match(line) is not None for line in lines) >= share * len(lines):
            kind = InputKind.RANK_LOG if of_rank and kind is InputKind.CONSOLE else kind
            return Recognised(kind=kind, source=hinted if source is Source.UNKNOWN else source)
    return Recognised(kind=InputKind.RANK_LOG if of_rank else InputKind.PLAIN, source=hinted)


def _is_nvsmi_table(line: str) -> bool:
    names = [name.strip() for name in line.split(",")]
    return len(names) >= 2 and all(_NVSMI_COLUMN.match(name) for name in names)
