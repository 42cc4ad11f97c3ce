"""The name of a job that was given none."""

from __future__ import annotations

import os
from pathlib import Path

from node_agent.adapters.launch_options import LaunchOptions
from service_kit.clock import SystemClock

STEM_MAX = 50
"""Characters of the script's name in a job id: with time and pid below the limit of a subject's token."""


def job_id_of(options: LaunchOptions) -> str:
    """The given name, else one that no other run has. Nodes of one job must agree, so theirs has no time in it."""
    stem = "".join(c if c.isprintable() else "_" for c in Path(options.program).stem)[:STEM_MAX] or "job"
    if options.job_id:
        return options.job_id
    if options.spec.nnodes > 1 or options.spec.spares:
        return stem
    return f"{stem}-{SystemClock().now():%Y%m%d-%H%M%S}-{os.getpid()}"
