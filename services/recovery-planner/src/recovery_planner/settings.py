"""Settings of the planner. Read in `main`; the domain sees a Policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field

from recovery_planner.application.watch_agents import Patience
from recovery_planner.domain.policy import Policy
from service_kit.settings import BusSettings

Seconds = Annotated[float, Field(gt=0, le=86_400)]


def _env(field: str) -> AliasChoices:
    return AliasChoices(f"PHALANX_{field.upper()}", field)


class PlannerSettings(BusSettings):
    """How long the planner waits for whom."""

    stop_margin_s: Annotated[Seconds, Field(validation_alias=_env("stop_margin_s"))] = 7.0
    """[PHALANX_STOP_MARGIN_S] Seconds beyond the job's own grace that an agent has to report its ranks stopped. SIGKILL
    ends a process in milliseconds; but an agent that missed the push reads the order at its next look, 5 s later."""
    verdict_deadline_s: Annotated[Seconds, Field(validation_alias=_env("verdict_deadline_s"))] = 2.0
    """[PHALANX_VERDICT_DEADLINE_S] Seconds after the stop until the cause counts as unknown. The classifier itself
    waits 1.8 s when it has seen only victims."""
    start_deadline_s: Annotated[Seconds, Field(validation_alias=_env("start_deadline_s"))] = 120.0
    """[PHALANX_START_DEADLINE_S] Seconds until every agent must have started its ranks. Covers a plain spawn of the
    interpreter from a slow shared file system."""
    capacity_wait_s: Annotated[Seconds, Field(validation_alias=_env("capacity_wait_s"))] = 300.0
    """[PHALANX_CAPACITY_WAIT_S] Seconds to wait for a node when there is no spare: a rebooted machine or a rescheduled
    pod is back by then."""
    in_process_attempts_max: Annotated[int, Field(ge=0, le=100, validation_alias=_env("in_process_attempts_max"))] = 2
    """[PHALANX_IN_PROCESS_ATTEMPTS_MAX] Restarts in place within one incident; then processes are replaced. 0 turns
    restarts in place off."""
    end_repeat_s: Annotated[Seconds, Field(validation_alias=_env("end_repeat_s"))] = 5.0
    """[PHALANX_END_REPEAT_S] Seconds between two repeats of a job's end to agents that are still there. Whoever reports
    in between is told when they are over (`end.owed`)."""
    command_ttl_s: Annotated[Seconds, Field(validation_alias=_env("command_ttl_s"))] = 120.0
    """[PHALANX_COMMAND_TTL_S] Seconds that a start or stop is valid; agents' clocks must agree with ours within it."""
    end_ttl_s: Annotated[Seconds, Field(validation_alias=_env("end_ttl_s"))] = 30.0
    """[PHALANX_END_TTL_S] Seconds that the end of a job is valid: a new run under the same job_id must outlast it."""
    ended_kept_s: Annotated[float, Field(gt=0, validation_alias=_env("ended_kept_s"))] = 604_800.0
    """[PHALANX_ENDED_KEPT_S] Seconds that the record of an ended job is kept: a week, so that an agent that was cut off
    over a long weekend is still told."""

    fit_demanded: Annotated[bool, Field(validation_alias=_env("fit_demanded"))] = False
    """[PHALANX_FIT_DEMANDED] True: a node gets ranks only when its host role has told that it is ok. False: also when
    nobody has told anything of it, so that a cluster without host roles works. A bad one gets none in any case."""

    policy_file: Annotated[Path | None, Field(validation_alias=AliasChoices("PHALANX_POLICY", "policy_file"))] = None
    """[PHALANX_POLICY] YAML file of the cluster's policy: what is done about nodes (docs/node-lifecycle.md). Empty:
    nothing is done to a node by itself."""

    heartbeat_missing_s: Annotated[Seconds, Field(validation_alias=_env("heartbeat_missing_s"))] = 6.0
    """[PHALANX_HEARTBEAT_MISSING_S] Seconds without a heartbeat until an agent is pinged: three intervals of 2 s."""
    heartbeat_lost_s: Annotated[Seconds, Field(validation_alias=_env("heartbeat_lost_s"))] = 15.0
    """[PHALANX_HEARTBEAT_LOST_S] Seconds of silence after which an agent is lost even though nobody knows: longer than
    a client needs to find that its server is gone (two pings of 5 s) and to reconnect."""
    agent_absent_grace_s: Annotated[Seconds, Field(validation_alias=_env("agent_absent_grace_s"))] = 1.5
    """[PHALANX_AGENT_ABSENT_GRACE_S] Seconds that the server must keep saying that an agent is not connected. A client
    that lost its connection is back after a fraction of a second."""
    reconnect_grace_s: Annotated[Seconds, Field(validation_alias=_env("reconnect_grace_s"))] = 10.0
    """[PHALANX_RECONNECT_GRACE_S] Seconds after our own reconnect in which an absent agent counts as unknown: when the
    server was restarted everybody comes back, and not all at once."""

    failpoint: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_FAILPOINT", "failpoint"))] = ""
    """[PHALANX_FAILPOINT] For tests: `name:n` kills this process the n-th time it reaches that place. Empty: off."""

    def policy(self) -> Policy:
        """The limits that the domain sees."""
        return Policy(
            stop_margin_s=self.stop_margin_s,
            verdict_deadline_s=self.verdict_deadline_s,
            start_deadline_s=self.start_deadline_s,
            capacity_wait_s=self.capacity_wait_s,
            in_process_attempts_max=self.in_process_attempts_max,
            end_repeat_s=self.end_repeat_s,
            command_ttl_s=self.command_ttl_s,
            end_ttl_s=self.end_ttl_s,
        )

    def patience(self) -> Patience:
        """How long agents may be quiet."""
        return Patience(
            heartbeat_missing_s=self.heartbeat_missing_s,
            heartbeat_lost_s=self.heartbeat_lost_s,
            agent_absent_grace_s=self.agent_absent_grace_s,
            reconnect_grace_s=self.reconnect_grace_s,
        )
