"""Where this node stands: `--node-rank` in the gang, `--node-labels` in the cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from fault_contracts.agent import NODE_LABELS_MAX
from node_agent.adapters.launch_options import BadOption

VARIABLE = "PHALANX_NODE_LABELS"
TEXT_LENGTH_MAX = 128
"""Of a name or a value, as fault_contracts.agent.NodeLabels has it."""


def add_place_flags(group: Any, flag: Callable[..., None]) -> None:
    """Add both flags."""
    flag(group, "node-rank", type=int, metavar="N", help="this node's place; without it, the order of arrival")
    flag(
        group,
        "node-labels",
        default="",
        metavar="K=V,...",
        help=f"where it stands: rack=r1,switch=s3,nvlink_domain=d7 ({VARIABLE})",
    )


def read_node_rank(given: argparse.Namespace) -> int | None:
    """The place that was asked for.

    Raises:
        BadOption: below 0.
    """
    rank: int | None = given.node_rank
    if rank is not None and rank < 0:
        raise BadOption(f"--node-rank {rank}: must not be negative")
    return rank


def read_node_labels(given: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, str]:
    """Labels of the flag, else of the environment.

    Raises:
        BadOption: not `name=value,name=value`, a name twice, too many, or too long.
    """
    text = str(given.node_labels) or environ.get(VARIABLE, "")
    labels: dict[str, str] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not equals or not name or not value:
            raise BadOption(f"--node-labels {piece!r}: a label is name=value, as in rack=r1")
        if name in labels:
            raise BadOption(f"--node-labels: {name} is given twice")
        if not piece.isprintable() or max(len(name), len(value)) > TEXT_LENGTH_MAX:
            raise BadOption(f"--node-labels {piece[:40]!r}: at most {TEXT_LENGTH_MAX} printable characters each")
        labels[name] = value
    if len(labels) > NODE_LABELS_MAX:
        raise BadOption(f"--node-labels: {len(labels)} labels; {NODE_LABELS_MAX} are the limit")
    return labels
