"""Finds the node that a drill is meant for: the card that its host role wrote (host.json)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from node_agent.adapters.host_folder import CARD, HOSTS, host_card_path

NO_KERNEL_LOG = Path("none")
"""`phalanx host --kmsg none`."""


class NoSuchNode(Exception):
    """No card, or one that cannot be read; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCard:
    """What a drill needs to know.

    Attributes:
        folder: of the host role; what was injected is noted there.
        fake_state: control file of the fake library; None: the node has the real one, or none.
        kmsg_path: what it takes for the kernel log; NO_KERNEL_LOG: it reads none.
        sys_root: what it takes for /sys.
    """

    node_id: str
    pid: int
    folder: Path
    kmsg_path: Path
    fake_state: Path | None
    sys_root: Path

    @property
    def alive(self) -> bool:
        """The host role runs."""
        return Path(f"/proc/{self.pid}").exists()

    @property
    def kernel_log_is_real(self) -> bool:
        """A device, or anything else that is no plain file of a drill."""
        return self.kmsg_path.is_relative_to("/dev") or (self.kmsg_path.exists() and not self.kmsg_path.is_file())

    @property
    def sysfs_is_real(self) -> bool:
        """The kernel's own."""
        return self.sys_root.resolve() == Path("/sys")


def find_node(data_dir: Path, node_id: str) -> NodeCard:
    """The card of a node; without a name, of the only one that there is.

    Raises:
        NoSuchNode: none of this name, none at all, or several to choose from.
    """
    if node_id:
        return _read(host_card_path(data_dir, node_id))
    paths = sorted((data_dir.absolute() / HOSTS).glob(f"*/{CARD}"))
    cards = [_read(path) for path in paths]
    chosen = [card for card in cards if card.alive] or cards
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise NoSuchNode(f"no host role has run with --data-dir {data_dir}; start one with `phalanx host`")
    raise NoSuchNode(f"several nodes: {', '.join(card.node_id for card in chosen)}; choose one with --node")


def _read(path: Path) -> NodeCard:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        state = str(said.get("fake_state") or "")
        return NodeCard(
            node_id=str(said["node_id"]),
            pid=int(said["pid"]),
            folder=path.parent,
            kmsg_path=Path(said["kmsg_path"]),
            fake_state=Path(state) if state else None,
            sys_root=Path(said.get("sys_root") or "/sys"),
        )
    except FileNotFoundError as error:
        raise NoSuchNode(f"no host role of this name has run here: {path} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoSuchNode(f"{path} cannot be read: {type(error).__name__}: {error}") from error
