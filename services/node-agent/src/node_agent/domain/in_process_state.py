"""In-process mode of one agent: ranks leave their re-executable block and wait at a barrier instead of ending.

More permissive than process mode (agent_state.py), which it contains: READY may mean that living ranks stand at the
barrier, a rank may die on the way there or while it waits, and from everywhere the way back to process mode is open.
The mode begins when every rank of the node has announced its block, and ends with the first stop of the processes.
"""

from __future__ import annotations

from types import MappingProxyType

from fault_contracts.agent import AgentPhase
from node_agent.domain.agent_state import TRANSITIONS, AgentEvent, Table

_P = AgentPhase
_E = AgentEvent

IN_PROCESS_TRANSITIONS: Table = MappingProxyType(
    {
        **TRANSITIONS,
        (_P.STOPPING, _E.AT_BARRIER): _P.READY,
        (_P.STOPPING, _E.RANK_FAILED): _P.STOPPING,  # it will be replaced; its siblings still come to the barrier
        (_P.READY, _E.RANK_FAILED): _P.READY,  # it died at the barrier; the next start replaces it
        (_P.STOPPING, _E.FALL_BACK): _P.STOPPING,
        (_P.READY, _E.FALL_BACK): _P.STOPPING,
        (_P.READY, _E.STAND_DOWN): _P.STOPPING,  # living ranks wait at the barrier for a start that nobody orders
    }
)
