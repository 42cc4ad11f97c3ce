"""Which bus a command asks: of NATS_URL, of the stack that `phalanx up` left, or of the runs on the data folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from phalanx_cli.stack import developer
from phalanx_cli.stack.errors import StackError

if TYPE_CHECKING:
    from service_kit.settings import BusSettings

CONNECT_LIMIT_S = 5.0
"""A person waits: a bus that does not answer by then is not there."""
RUNS_MAX = 32
"""Folders of runs that are looked into, the newest first."""


def chosen_bus(cluster: str, data_dir: Path) -> BusSettings | None:
    """Settings of the bus of NATS_URL, or of `phalanx up`; None when there is neither.

    Raises:
        StackError: the stack's state cannot be read.
    """
    from service_kit.settings import BusSettings

    settings = BusSettings().model_copy(update={"connect_limit_s": CONNECT_LIMIT_S})
    if "NATS_URL" not in os.environ:
        state = developer.running_stack(data_dir)
        if state is None:
            return None
        settings = settings.model_copy(update={"nats_url": state.nats_url, "cluster": state.cluster})
    return settings.model_copy(update={"cluster": cluster}) if cluster else settings


def buses(cluster: str, data_dir: Path) -> list[BusSettings]:
    """The chosen bus, and without one those of every `phalanx run` that is under way on the data folder.

    Raises:
        StackError: the stack's state cannot be read.
    """
    chosen = chosen_bus(cluster, data_dir)
    if chosen is not None:
        return [chosen]
    from service_kit.settings import BusSettings

    base = BusSettings().model_copy(update={"connect_limit_s": CONNECT_LIMIT_S})
    found = []
    for folder in _run_folders(data_dir):
        try:
            state = developer.running_stack(folder)
        except StackError:
            continue  # a run of another version; the others are still of interest
        if state is not None and cluster in ("", state.cluster):
            found.append(base.model_copy(update={"nats_url": state.nats_url, "cluster": state.cluster}))
    return found


def _run_folders(data_dir: Path) -> list[Path]:
    try:
        folders = [path for path in (data_dir / "runs").iterdir() if path.is_dir()]
    except OSError:
        return []  # no run yet
    return sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[:RUNS_MAX]
