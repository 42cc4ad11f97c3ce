"""Settings of the planner. Read in `main`; the domain sees a Policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator

from recovery_planner.application.watch_agents import Patience
from recovery_planner.domain.kube_nodes import MirrorRules
from recovery_planner.domain.kube_retire import Replacement, RetireRules
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
    silent_training_max_s: Annotated[Seconds, Field(validation_alias=_env("silent_training_max_s"))] = 600.0
    """[PHALANX_SILENT_TRAINING_MAX_S] Seconds that an agent may be silent while its gang goes on doing steps. A step
    needs all ranks: only the way to the bus is broken. After that its node counts as lost all the same: nothing that
    happens there would be seen."""
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
            silent_training_max_s=self.silent_training_max_s,
            reconnect_grace_s=self.reconnect_grace_s,
        )


class OperatorSettings(BusSettings):
    """phalanx-operator: where Kubernetes is, and what launchers in pods are told."""

    kubeconfig: Annotated[
        Path | None, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_KUBECONFIG", "kubeconfig"))
    ] = None
    """[PHALANX_OPERATOR_KUBECONFIG] Kubeconfig file. Not set: the pod's service account, else $KUBECONFIG."""
    lease_namespace: Annotated[
        str, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_NAMESPACE", "lease_namespace"))
    ] = "phalanx"
    """[PHALANX_OPERATOR_NAMESPACE] Namespace of the lease that keeps two replicas from working at once; its own."""
    jobs: Annotated[bool, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_JOBS", "jobs"))] = True
    """[PHALANX_OPERATOR_JOBS] Make pods for TrainingJobs (docs/kubernetes-jobs.md)."""
    launcher_nats_url: Annotated[
        str, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_LAUNCHER_NATS_URL", "launcher_nats_url"))
    ] = ""
    """[PHALANX_OPERATOR_LAUNCHER_NATS_URL] NATS_URL of the launchers in pods of jobs; not set: the operator's own."""
    launcher_secret: Annotated[
        str, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_LAUNCHER_SECRET", "launcher_secret"))
    ] = ""
    """[PHALANX_OPERATOR_LAUNCHER_SECRET] Secret of the job's namespace with `ca.crt` and, for each node, the identity
    `launcher-NODE.nk` (docs/security.md); a pod is given the file of its own node. Not set: the bus asks for none."""

    nodes: Annotated[bool, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_NODES", "nodes"))] = True
    """[PHALANX_OPERATOR_NODES] Mirror nodes: conditions, taints, cordon, drain (docs/kubernetes-nodes.md)."""
    node_labels: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_NODE_LABELS", "node_labels"))] = (
        ""
    )
    """[PHALANX_OPERATOR_NODE_LABELS] Label selector of the nodes that are looked after; not set: all of which something
    is known."""
    cordon: Annotated[bool, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_CORDON", "cordon"))] = True
    """[PHALANX_OPERATOR_CORDON] Also cordon a node that is out of use; the taint is set in any case."""
    drain: Annotated[bool, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_DRAIN", "drain"))] = True
    """[PHALANX_OPERATOR_DRAIN] Evict what is left on a node once no ranks are there."""
    drain_s: Annotated[Seconds, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_DRAIN_S", "drain_s"))] = 1_800.0
    """[PHALANX_OPERATOR_DRAIN_S] Seconds until evicting is given up, and said."""
    nodes_out_share: Annotated[
        float, Field(gt=0, le=1, validation_alias=AliasChoices("PHALANX_OPERATOR_NODES_OUT_SHARE", "nodes_out_share"))
    ] = 0.3
    """[PHALANX_OPERATOR_NODES_OUT_SHARE] Share of the nodes that the operator keeps out of use at a time; one it always
    may. A last stop beside the planner's breaker."""
    replacement: Annotated[
        Replacement, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_REPLACEMENT", "replacement"))
    ] = Replacement.WAIT
    """[PHALANX_OPERATOR_REPLACEMENT] What is done with a node that the planner gave up: wait, node-claim (Karpenter) or
    webhook."""
    replacements_max: Annotated[
        int,
        Field(ge=1, le=10_000, validation_alias=AliasChoices("PHALANX_OPERATOR_REPLACEMENTS_MAX", "replacements_max")),
    ] = 5
    """[PHALANX_OPERATOR_REPLACEMENTS_MAX] Nodes that are given back in an hour."""
    replacement_url: Annotated[
        str, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_REPLACEMENT_URL", "replacement_url"))
    ] = ""
    """[PHALANX_OPERATOR_REPLACEMENT_URL] Address of the webhook that replaces machines."""
    replacement_token: Annotated[
        SecretStr, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_REPLACEMENT_TOKEN", "replacement_token"))
    ] = SecretStr("")
    """[PHALANX_OPERATOR_REPLACEMENT_TOKEN] Bearer token for it."""
    signals_url: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_OPERATOR_SIGNALS_URL", "signals_url"))] = (
        ""
    )
    """[PHALANX_OPERATOR_SIGNALS_URL] health-ingest's door for signals (docs/foreign-signals.md): conditions that others
    set on nodes are forwarded to it; not set: they are not."""
    signals_token: Annotated[
        SecretStr, Field(validation_alias=AliasChoices("PHALANX_SIGNALS_TOKEN", "signals_token"))
    ] = SecretStr("")
    """[PHALANX_SIGNALS_TOKEN] Bearer token of that door."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.replacement is Replacement.WEBHOOK and not self.replacement_url:
            raise ValueError("PHALANX_OPERATOR_REPLACEMENT=webhook needs PHALANX_OPERATOR_REPLACEMENT_URL")
        return self

    def mirror_rules(self) -> MirrorRules:
        """What the operator may do to nodes."""
        return MirrorRules(cordon=self.cordon, drain=self.drain, drain_s=self.drain_s, share_max=self.nodes_out_share)

    def retire_rules(self) -> RetireRules:
        """How nodes are given back."""
        return RetireRules(how=self.replacement, nodes_max=self.replacements_max)
