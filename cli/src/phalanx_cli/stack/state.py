"""What a stack leaves on disk for other commands: who owns it, which processes it has, where they listen and log.

One JSON file in the data folder, replaced atomically, readable by its user only (a URL may carry a password).
Processes are named by `ProcessIdentity`, so a stale file never makes anybody signal a stranger.
"""

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.identity import ProcessIdentity

STATE_FILE = "stack.json"


class StackOwner(StrEnum):
    """Whose stack it is: `phalanx down` ends the one that `phalanx up` left, not one inside a running job."""

    UP = "up"
    RUN = "run"


class StackPhase(StrEnum):
    """Whether its processes answer yet."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


class HealthCheck(StrEnum):
    """How a process is asked for its health."""

    NATS = "nats"
    REDIS = "redis"
    READYZ = "readyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """One process of the stack; without identity and log it is somebody else's server."""

    name: str
    identity: ProcessIdentity | None
    health_check: HealthCheck
    log_path: Path | None
    url: str | None
    http_port: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """The stack of one data folder."""

    cluster: str
    owner: StackOwner
    owner_identity: ProcessIdentity
    phase: StackPhase
    nats_url: str
    redis_url: str
    members: tuple[MemberRecord, ...]

    def identities(self) -> tuple[ProcessIdentity, ...]:
        """Every process that the stack started, without its owner."""
        return tuple(member.identity for member in self.members if member.identity is not None)


def write_state(data_dir: Path, state: StackState) -> None:
    """Replace the state file.

    Raises:
        StackError: the folder cannot be written.
    """
    path = data_dir / STATE_FILE
    partial = path.with_suffix(".partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(state), file, indent=2, default=str)
            file.write("\n")
        partial.replace(path)
    except OSError as error:
        raise StackError(f"the state of the stack cannot be written: {error}") from error


def read_state(data_dir: Path) -> StackState | None:
    """Return the recorded state, or none when there is none.

    Raises:
        StackError: there is a file that this version cannot read.
    """
    path = data_dir / STATE_FILE
    try:
        return _state_of(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StackError(f"{path} cannot be read ({error!r}); remove it once no server of it runs") from error


def remove_state(data_dir: Path) -> None:
    """Forget the stack of a data folder."""
    (data_dir / STATE_FILE).unlink(missing_ok=True)


def _state_of(raw: dict[str, Any]) -> StackState:
    return StackState(
        cluster=raw["cluster"],
        owner=StackOwner(raw["owner"]),
        owner_identity=ProcessIdentity(**raw["owner_identity"]),
        phase=StackPhase(raw["phase"]),
        nats_url=raw["nats_url"],
        redis_url=raw["redis_url"],
        members=tuple(_member_of(member) for member in raw["members"]),
    )


def _member_of(raw: dict[str, Any]) -> MemberRecord:
    return MemberRecord(
        name=raw["name"],
        identity=None if raw["identity"] is None else ProcessIdentity(**raw["identity"]),
        health_check=HealthCheck(raw["health_check"]),
        log_path=None if raw["log_path"] is None else Path(raw["log_path"]),
        url=raw["url"],
        http_port=raw["http_port"],
    )
