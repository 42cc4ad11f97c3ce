"""`phalanx run`: the flags about checkpoints, and their reading."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from node_agent.adapters.checkpoint_options import CheckpointOptions
from node_agent.adapters.launch_options import BadOption
from node_agent.domain.checkpoint_check import CheckLevel
from node_agent.domain.checkpoint_pattern import DEFAULT_PATTERN, BadPattern, parse_pattern

_LEVELS = ", ".join(CheckLevel)
_CHECK = "how closely a reported checkpoint is looked at: none, exists (default), size or checksum (FILE.sha256)"
_DIR = "find checkpoints in this folder, for scripts that report none"
_PATTERN = "names in it: {step}, * and, where each rank writes its own, {rank} (default: ends in the step)"


def add_checkpoint_flags(parser: argparse.ArgumentParser, flag: Callable[..., None]) -> None:
    """The group of `--help`."""
    group = parser.add_argument_group("checkpoints")
    flag(group, "checkpoint-check", default=CheckLevel.EXISTS.value, metavar="HOW", help=_CHECK)
    flag(group, "checkpoint-dir", default="", metavar="DIR", help=_DIR)
    flag(group, "checkpoint-pattern", default="", metavar="NAME", help=_PATTERN)


def read_checkpoints(given: Any) -> CheckpointOptions:
    """The values of the flags.

    Raises:
        BadOption: a level that does not exist, or a pattern that cannot be used.
    """
    try:
        level = CheckLevel(given.checkpoint_check.strip().lower())
    except ValueError:
        raise BadOption(f"--checkpoint-check {given.checkpoint_check!r}: choose one of {_LEVELS}") from None
    if not given.checkpoint_dir:
        if given.checkpoint_pattern:
            raise BadOption("--checkpoint-pattern needs --checkpoint-dir: the folder that the names are in")
        return CheckpointOptions(level=level)
    if "://" in given.checkpoint_dir:
        raise BadOption(f"--checkpoint-dir {given.checkpoint_dir!r}: give a folder; an object store cannot be watched")
    try:
        pattern = parse_pattern(given.checkpoint_pattern) if given.checkpoint_pattern else DEFAULT_PATTERN
    except BadPattern as error:
        raise BadOption(f"--checkpoint-pattern: {error}") from error
    return CheckpointOptions(level=level, folder=Path(given.checkpoint_dir), pattern=pattern)
