"""What programs put before a line: who says it, when, and where.

kubectl, Docker, journald, syslog, dmesg, srun, torchrun and Phalanx each add a prefix, and they nest. They are read one
after the other, from the left, and only on lines that say something: signatures search anywhere in a line, so the rest
of a file is never taken apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fault_attribution.evidence_line import Source
from fault_attribution.matching.hit import LineFacts
from phalanx_cli.diagnose.timestamps import DMESG_T, GLOG, ISO, SYSLOG, UPTIME, glog_s, iso_s, named_month_s

PREFIX_CHARS_MAX = 1_024
"""Of a line; no prefix is longer."""
CLOCK_BACK_S = 60.0
"""Lines of one stream that go back in time by less than this are several writers' buffers, not a clock that was set."""
_PREFIXED = re.compile(rb"[\[<\d ]|[A-Z][a-z]{2} [ \d]|[IWEF]\d{4} |std(?:out|err) ")
"""What a line with any of the prefixes begins with."""
_POD = re.compile(r"\[pod/(?P<pod>[^/\]\s]{1,253})/(?P<container>[^\]\s]{1,253})\] ?")
_CRI = re.compile(r"(?P<stream>stdout|stderr) [FP] ")
_SYSLOG_REST = re.compile(r" (?P<host>[\w.:-]{1,253}) (?P<program>[A-Za-z][\w./@()-]{0,99})(?:\[\d+\])?: ?")
_LEVEL = re.compile(r"<\d{1,3}>")
_KMSG_RECORD = re.compile(r"\d{1,3},\d+,(?P<micros>\d{1,18}),[^;]{0,100};")
_SRUN = re.compile(r" {0,5}(?P<task>\d{1,6}): ?")
_LOCAL = re.compile(r"\[(?!rank)[a-z_]{0,40}(?P<local>\d{1,5})\]: ?", re.IGNORECASE)
_RANK = re.compile(r"\[rank ?(?P<rank>\d{1,6})\]:? ?", re.IGNORECASE)
_NCCL = re.compile(r"(?P<host>[A-Za-z][\w.-]{0,252}):\d+:\d+ \[-?\d+\] ")
_MPI = re.compile(r"\[\d+,(?P<rank>\d{1,6})\]<(?P<stream>stdout|stderr|stddiag)>: ?")
_STREAMS = {"stdout": Source.WORKER_STDOUT, "stderr": Source.WORKER_STDERR, "stddiag": Source.WORKER_STDERR}
_MACHINE_PROGRAMS = (
    "kernel", "nv-fabricmanager", "nvidia-fabricmanager", "nvidia-persistenced", "systemd", "mcelog", "rasdaemon",
    "earlyoom", "nv-hostengine", "abrt", "audit", "smartd", "ipmievd",
)  # fmt: skip
_CLUSTER_PROGRAMS = (
    "kubelet", "containerd", "dockerd", "crio", "slurmctld", "slurmd", "slurmstepd", "kube-", "k3s", "volcano",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What is known of a stream before its first line.

    Attributes:
        local_rank: rank on its node, where the global one is not known.
        fixed: what a person said and lines cannot change: any of source, node, rank.
        task_labels: `srun -l` put the task before each line.
    """

    source: Source = Source.UNKNOWN
    node: str = ""
    rank: int | None = None
    local_rank: int | None = None
    fixed: frozenset[str] = frozenset()
    task_labels: bool = False

    def facts(self) -> LineFacts:
        """Of a line without any prefix. A local rank is marked as one, see `as_local`."""
        rank = self.rank if self.rank is not None or self.local_rank is None else as_local(self.local_rank)
        return LineFacts(source=self.source, node=self.node, rank=rank)


def as_local(rank: int) -> int:
    """A local rank where a global one is expected; below 0, until all inputs are read and it can be told."""
    return -1 - rank


@dataclass(slots=True)
class _Told:
    """What the prefixes of one line told so far."""

    rest: str
    source: Source
    node: str
    rank: int | None
    local_rank: int | None
    at_s: float | None = None
    since_boot: bool = False


@dataclass(slots=True)
class LineReader:
    """Reads the prefixes of one stream's lines; what a matcher asks for when it has found something.

    Attributes:
        since_boot: some line had the kernel's time since boot, which is no time of day.
        time_of_day: some line had one.
        clock_back: how often the time went back by more than a minute.
        rank_offset: global less local rank, once a line told both.
    """

    origin: Origin
    year: int
    since_boot: bool = False
    time_of_day: bool = False
    clock_back: int = 0
    rank_offset: int | None = None
    _latest: dict[str, float] = field(default_factory=dict)

    def __call__(self, line: bytes, facts: LineFacts) -> LineFacts:
        """Facts of a line."""
        if not _PREFIXED.match(line) and (facts.node or b"NCCL" not in line):
            return facts  # a log of steps has a finding on each line
        told = self._read(line[:PREFIX_CHARS_MAX].decode(errors="replace"))
        if told.at_s is not None:
            self._watch_clock(told.node, told.at_s)
            self.since_boot |= told.since_boot
            self.time_of_day |= not told.since_boot
        rank = told.rank
        if rank is None and told.local_rank is not None:
            rank = as_local(told.local_rank)
        elif rank is not None and told.local_rank is not None:
            self.rank_offset = rank - told.local_rank
        fixed = self.origin.fixed
        return LineFacts(
            source=self.origin.source if "source" in fixed else told.source,
            node=self.origin.node if "node" in fixed else told.node,
            rank=self.origin.rank if "rank" in fixed else rank,
            at_s=told.at_s,
        )

    def _watch_clock(self, node: str, at_s: float) -> None:
        latest = self._latest.get(node)
        if latest is not None and at_s < latest - CLOCK_BACK_S:
            self.clock_back += 1
        if latest is not None or len(self._latest) < 10_000:
            self._latest[node] = at_s

    def _read(self, text: str) -> _Told:
        origin = self.origin
        told = _Told(text, origin.source, origin.node, origin.rank, origin.local_rank)
        if text.startswith("[pod/") and (found := _POD.match(text)):
            told.rest = text[found.end() :]
            told.node = told.node or found["pod"]
        if origin.task_labels and (found := _SRUN.match(told.rest)):
            told.rank, told.rest = int(found["task"]), told.rest[found.end() :]
        if told.rest.startswith("["):
            if found := _MPI.match(told.rest):
                told.rank, told.rest = int(found["rank"]), told.rest[found.end() :]
                told.source = _STREAMS[found["stream"]]
            _read_ranks(told)
        _read_time(told, self.year)
        if told.rest.startswith("std") and (found := _CRI.match(told.rest)):
            told.source, told.rest = _STREAMS[found["stream"]], told.rest[found.end() :]
        if told.rest.startswith("["):
            _read_ranks(told)
        if not told.node and told.source is not Source.KMSG and "NCCL" in told.rest:
            found = _NCCL.search(told.rest[:400])
            told.node = "" if found is None else found["host"]
        return told


def _read_ranks(told: _Told) -> None:
    """Ranks: torchrun's `[default3]:`, Phalanx's `[3]: `, torch's `[rank11]:`, one after the other."""
    if found := _LOCAL.match(told.rest):
        told.local_rank, told.rest = int(found["local"]), told.rest[found.end() :]
    if found := _RANK.match(told.rest):
        told.rank, told.rest = int(found["rank"]), told.rest[found.end() :]


def _read_time(told: _Told, year: int) -> None:
    """The time, and after it the host and program of a journal; or a kernel's own time since boot.

    A log of steps has a finding on each line, so the first character decides which patterns are tried at all.
    """
    if told.rest.startswith("<") and (found := _LEVEL.match(told.rest)):
        told.rest, told.source = told.rest[found.end() :], Source.KMSG
    first = told.rest[:1]
    if first.isdigit():
        if found := ISO.match(told.rest):
            _read_iso(told, found)
        elif found := _KMSG_RECORD.match(told.rest):
            told.at_s, told.since_boot, told.source = int(found["micros"]) / 1e6, True, Source.KMSG
    elif first == "[":
        _read_bracket(told)
    elif first.isalpha():
        if found := SYSLOG.match(told.rest):
            told.at_s, told.rest = named_month_s(found, year), told.rest[found.end() :]
            _read_program(told)
        elif found := GLOG.match(told.rest):
            told.at_s = glog_s(found, year)


def _read_bracket(told: _Told) -> None:
    if found := UPTIME.match(told.rest):
        told.at_s, told.since_boot = float(found["seconds"]), True
        told.rest = told.rest[found.end() :]
        if not _read_program(told):  # journalctl -o short-monotonic has one
            told.source = Source.KMSG
    elif found := DMESG_T.match(told.rest):
        told.at_s, told.source = named_month_s(found, int(found["year"])), Source.KMSG
    elif found := ISO.match(told.rest):
        _read_iso(told, found)


def _read_iso(told: _Told, found: re.Match[str]) -> None:
    told.at_s, told.rest = iso_s(found), told.rest[found.end() :]
    if not _read_program(told):
        told.rest = told.rest.lstrip()


def _read_program(told: _Told) -> bool:
    found = _SYSLOG_REST.match(told.rest)
    if found is None:
        return False
    told.node = told.node or found["host"]
    told.rest = told.rest[found.end() :]
    if found["program"].startswith(_MACHINE_PROGRAMS):
        told.source = Source.KMSG
    elif found["program"].startswith(_CLUSTER_PROGRAMS):
        told.source = Source.K8S
    return True
