"""Writes docs/state-machines.md from the transition tables of the code, so that the pictures cannot lie."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fault_contracts.remediation import NodePhase
from health_ingest.domain import condition
from node_agent.domain import agent_state, block_ranks, in_process_state
from recovery_planner.domain import gang_machine, node_machine
from recovery_planner.domain.gang import Phase

TARGET = Path(__file__).resolve().parent.parent / "docs" / "state-machines.md"

HEAD = """# State machines

Drawn by `tools/draw_state_machines.py` from the transition tables; do not edit. A move that is not drawn does not
exist.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One table and the words around its picture."""

    title: str
    source: str
    text: str
    initial: StrEnum
    table: Mapping[tuple[StrEnum, StrEnum], StrEnum]


MACHINES: tuple[Machine, ...] = (
    Machine(
        title="A gang (recovery-planner)",
        source="services/recovery-planner/src/recovery_planner/domain/gang_machine.py",
        text=(
            "One record per job. Agents' reports are written down in any order; what follows from the record is one of"
            " these moves. A fault leads through the stop, whatever else is known by then."
        ),
        initial=Phase.FORMING,
        table={(before, trigger): after for (before, trigger), after in gang_machine.TABLE.items()},
    ),
    Machine(
        title="A node under remediation (recovery-planner)",
        source="services/recovery-planner/src/recovery_planner/domain/node_machine.py",
        text=(
            "One record per node that something was ever said against. `ok`, `suspect` and `probation` may be given"
            " ranks, all others not. Moves by hand: `held`, `released`, `freed`."
        ),
        initial=NodePhase.OK,
        table={(before, trigger): after for (before, trigger), after in node_machine.NODE_TABLE.items()},
    ),
    Machine(
        title="An agent's worker group (node-agent)",
        source="services/node-agent/src/node_agent/domain/agent_state.py",
        text="What the ranks of one node do, and which command the agent can obey.",
        initial=agent_state.AgentPhase.INIT,
        table={(before, event): after for (before, event), after in agent_state.TRANSITIONS.items()},
    ),
    Machine(
        title="The same group in in-process mode (node-agent)",
        source="services/node-agent/src/node_agent/domain/in_process_state.py",
        text=(
            "Holds from the moment every rank of the node has announced a re-executable block. READY may then mean that"
            " living ranks stand at the barrier. `fall_back` ends them and leads back to the mode above."
        ),
        initial=agent_state.AgentPhase.INIT,
        table={(before, event): after for (before, event), after in in_process_state.IN_PROCESS_TRANSITIONS.items()},
    ),
    Machine(
        title="A rank and its re-executable block (node-agent)",
        source="services/node-agent/src/node_agent/domain/block_ranks.py",
        text=(
            "Moves within one topology_version; only the next one leads from the barrier to the inside. A word about"
            " another version moves nothing."
        ),
        initial=block_ranks.BlockPlace.OUTSIDE,
        table={(before, after): after for before, places in block_ranks.MOVES.items() for after in sorted(places)},
    ),
    Machine(
        title="A condition (health-ingest)",
        source="services/health-ingest/src/health_ingest/domain/condition.py",
        text="One check of one entity: a problem is tolerated for a window, a failure is acted on.",
        initial=condition.Phase.CLEAR,
        table={(before, trigger): after for (before, trigger), after in condition.TRANSITIONS.items()},
    ),
)


def page(machines: tuple[Machine, ...] = MACHINES) -> str:
    """The whole page."""
    return HEAD + "\n".join(map(_section, machines))


def _section(machine: Machine) -> str:
    lines = [f"## {machine.title}\n", f"{machine.text} Table: `{machine.source}`.\n", "```mermaid", "stateDiagram-v2"]
    lines.append(f"    [*] --> {machine.initial}")
    by_ends: dict[tuple[StrEnum, StrEnum], list[str]] = {}
    for (before, trigger), after in machine.table.items():
        by_ends.setdefault((before, after), []).append(str(trigger))
    lines += [f"    {before} --> {after}: {', '.join(triggers)}" for (before, after), triggers in by_ends.items()]
    leaving = {before for before, _ in machine.table}
    lines += [f"    {state} --> [*]" for state in dict.fromkeys(machine.table.values()) if state not in leaving]
    return "\n".join([*lines, "```\n"])


def main() -> int:
    """Write the page; returns the exit code."""
    TARGET.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
