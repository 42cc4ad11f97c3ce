"""What the operator of a node set for node actions, as values: permissions, commands, services, deadlines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fault_contracts.node_actions import NodeAction
from node_agent.application.act_on_node import ActionPolicy
from node_agent.application.reset_gpu import ResetLimits
from node_agent.domain.node_action_plan import ActionCommands, Quiesced

QUIESCED_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActionOptions:
    """Everything, read and checked."""

    policy: ActionPolicy
    commands: ActionCommands
    """Without that of a validation, which is a program of ours."""
    validate_flags: tuple[str, ...]
    reset: ResetLimits


def read_allowed(text: str) -> frozenset[NodeAction]:
    """Names separated by commas; `none` and an empty text permit nothing.

    Raises:
        ValueError: a name that is no action.
    """
    names = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    if names == ["none"]:
        return frozenset()
    try:
        return frozenset(NodeAction(name) for name in names)
    except ValueError as error:
        raise ValueError(f"{error}; known: {', '.join(NodeAction)}, none") from None


def read_commands(texts: Mapping[NodeAction, str], quiesce: str) -> ActionCommands:
    """Command lines as one would type them (no shell), and the JSON list of services to quiesce.

    Raises:
        ValueError: what is wrong, for the operator.
    """
    commands = {action: tuple(shlex.split(text)) for action, text in texts.items() if text.strip()}
    return ActionCommands(commands=commands, quiesce=read_quiesce(quiesce))


def read_quiesce(text: str) -> tuple[Quiesced, ...]:
    """`[{"stop": "...", "start": "...", "processes": ["..."]}, ...]`.

    Raises:
        ValueError: it is something else.
    """
    told: Any = json.loads(text) if text.strip() else []
    if not isinstance(told, list) or len(told) > QUIESCED_MAX:
        raise ValueError(f"a JSON list of at most {QUIESCED_MAX} services is expected")
    found = []
    for service in told:
        if not isinstance(service, dict) or not {"stop", "start"} <= service.keys() <= {"stop", "start", "processes"}:
            raise ValueError(f'a service is {{"stop": "...", "start": "...", "processes": ["..."]}}, not {service!r}')
        found.append(
            Quiesced(
                stop=tuple(shlex.split(str(service["stop"]))),
                start=tuple(shlex.split(str(service["start"]))),
                processes=tuple(str(name) for name in service.get("processes", [])),
            )
        )
        if not found[-1].stop or not found[-1].start:
            raise ValueError("stop and start must name a command")
    return tuple(found)
