"""How the launcher is spoken to in a pod: its variables, the flags that are the operator's, and what its end means."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

OWN_VARIABLES = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_SPARES",
    "PET_RDZV_ID",
    "PET_JOB_ID",
    "PET_NODE_ID",
    "PET_NODE_RANK",
    "PET_LOCAL_ADDR",
    "PET_POLICY",
    "PET_LOG_RULES",
    "PET_SHUTDOWN_TIMEOUT",
    "PET_RDZV_ENDPOINT",
    "PET_NATS_URL",
    "PET_CLUSTER",
    "PHALANX_CLUSTER",
    "NATS_URL",
)
"""Set by the operator; `phalanx run` takes PET_<FLAG> as the default of a flag, as torchrun does."""

FORBIDDEN_FLAGS = tuple(
    spelling
    for flag in (
        "nnodes",
        "nproc-per-node",
        "spares",
        "job-id",
        "rdzv-id",
        "node-id",
        "node-rank",
        "local-addr",
        "rdzv-endpoint",
        "nats-url",
        "cluster",
        "standalone",
    )
    for spelling in sorted({f"--{flag}", f"--{flag.replace('-', '_')}"})
)
"""A flag on the command line wins over the variables: the pods of a gang would be told different things."""


class PodEnd(StrEnum):
    """What the end of a launcher says."""

    NOT_YET = "not_yet"
    SUCCEEDED = "succeeded"
    JOB_FAILED = "job_failed"
    """The planner ended the job: the user's fault, or the budget is used up."""
    REFUSED = "refused"
    """The launcher could not begin, and would not another time: usage, folder, setting."""
    NO_CAPACITY = "no_capacity"
    DISRUPTED = "disrupted"
    """The cluster took the pod: evicted, pre-empted, drained, deleted, its node gone. Nobody's fault."""
    FAILED = "failed"
    """Says nothing of the job: killed, no bus, a bug."""


EXIT_CODES = {
    0: PodEnd.SUCCEEDED,
    1: PodEnd.JOB_FAILED,
    2: PodEnd.REFUSED,
    73: PodEnd.REFUSED,
    75: PodEnd.NO_CAPACITY,
    78: PodEnd.REFUSED,
    # 128 + N: it was told to go. SIGKILL (137) is not told: that is the OOM killer, or somebody's hand.
    129: PodEnd.DISRUPTED,
    130: PodEnd.DISRUPTED,
    131: PodEnd.DISRUPTED,
    143: PodEnd.DISRUPTED,
}
"""Of docs/cli.md; every other code is FAILED."""


def end_of(exit_code: int) -> PodEnd:
    """What an exit code of the launcher says."""
    return EXIT_CODES.get(exit_code, PodEnd.FAILED)


def calls_launcher(words: Sequence[str]) -> bool:
    """Whether a command runs `phalanx run`, by itself or inside the text of a shell."""
    text = " ".join(words).split()
    return any(
        (word == "phalanx" or word.endswith("/phalanx") or word in ("phalanx_cli", "phalanx_cli.main"))
        and "run" in text[place + 1 : place + 2]
        for place, word in enumerate(text)
    )
