"""One line of text with what is known of where it comes from, whether an agent, a file or a person delivered it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """What wrote a line."""

    WORKER_STDOUT = "worker-stdout"
    WORKER_STDERR = "worker-stderr"
    KMSG = "kmsg"
    """Kernel log, and what a journal dump mixes into it."""
    NVML = "nvml"
    """nvidia-smi, DCGM, NVML readings as text."""
    K8S = "k8s"
    """The orchestrator: Kubernetes events and conditions, Slurm's controller, node monitors."""
    EXIT = "exit"
    """How a process ended."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """A line.

    Attributes:
        text: without its line end.
        node: host name as the source gives it; empty is unknown.
        rank: global rank; None is unknown or does not apply.
        at_s: seconds on any scale common to the incident; only differences of minutes are ever used. None is unknown.
        stream: the file or pipe it came from; within one stream the order of lines is known.
        number: place in that stream, from 1.
    """

    text: str
    source: Source = Source.UNKNOWN
    node: str = ""
    rank: int | None = None
    at_s: float | None = None
    stream: str = ""
    number: int = 0
