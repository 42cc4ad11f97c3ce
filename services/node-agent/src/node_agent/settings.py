"""Settings of the agent that are not flags of `phalanx run`: the bus, and how often it speaks. Read in main only."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from service_kit.settings import BusSettings


class AgentSettings(BusSettings):
    """BusSettings and the agent's own intervals."""

    heartbeat_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_AGENT_HEARTBEAT", "heartbeat_s"), gt=0, le=60)
    ] = 2.0
    """[PHALANX_AGENT_HEARTBEAT] Seconds between heartbeats. When three are missing the planner asks the agent
    directly."""
    catch_up_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_AGENT_CATCH_UP", "catch_up_s"), gt=0, le=600)
    ] = 5.0
    """[PHALANX_AGENT_CATCH_UP] Seconds between two looks at the newest stored command; a lost push costs this much."""
    outbox_drain_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_AGENT_DRAIN", "outbox_drain_s"), ge=0, le=600)
    ] = 3.0
    """[PHALANX_AGENT_DRAIN] Seconds an agent that leaves waits for the bus to take its last events; those that are left
    stay in its outbox file and are sent by the next agent of this node and job."""
