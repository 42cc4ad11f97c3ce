"""The flag of `phalanx run` that names the job's recovery policy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_contracts.policy import RecoveryPolicy
from node_agent.adapters.launch_options import BadOption
from service_kit.recovery_policy_file import read_recovery_policy
from service_kit.yaml_fields import PolicyRefused


def add_policy_flag(group: Any, flag: Callable[..., None]) -> None:
    """Declare it; `flag` adds both spellings."""
    flag(
        group,
        "policy",
        default="",
        metavar="FILE",
        help="what to do about which fault: levels, budgets, elastic bounds (YAML, docs/policy.md)",
    )


def read_policy(given: argparse.Namespace) -> RecoveryPolicy | None:
    """The policy; None without a file.

    Raises:
        BadOption: the file cannot be used; the text names file and line.
    """
    if not given.policy:
        return None
    try:
        return read_recovery_policy(Path(given.policy))
    except PolicyRefused as error:
        raise BadOption(f"--policy: {error}") from error
