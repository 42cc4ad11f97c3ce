"""Every question over core NATS once: who asks whom what, and what comes back. Nothing of it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.subjects import Kind, pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSpec:
    """One question over core NATS, with its reply. Bodies are small JSON objects, or empty; nothing is stored.

    Attributes:
        what: the subject's context; the whole is `phx.ask.<what>.asked.v1.<cluster>.<key>`.
        key: what the subject's last token names.
        question: field -> what it means; an empty one has no body.
        answer: the same; a sentence instead of fields is an answer in plain text.
    """

    what: str
    key: str
    askers: tuple[str, ...]
    answerer: str
    summary: str
    question: dict[str, str]
    answer: dict[str, str] | str

    def pattern(self, cluster: str, key: str | None = None) -> str:
        """The subject for one key, or the subscription over all."""
        return pattern(Kind.ASK, self.what, "asked", 1, cluster, key)


_LEDGER_ANSWER: dict[str, str] = {
    "ok": "true: done",
    "error": "what is wrong with the question; empty when ok",
    "changed": "false: it was so already",
    "entries": "entries of the ledger (LedgerEntry), as they are now",
}

ASKS: tuple[AskSpec, ...] = (
    AskSpec(
        what="ping",
        key="node_id",
        askers=("recovery-planner",),
        answerer="node-agent",
        summary="Is the agent of this node there? No responders: nobody listens, the agent is gone.",
        question={},
        answer={
            "instance_id": "this life of the agent",
            "phase": "state of its worker group (AgentPhase)",
            "topology_version": "the newest that it has seen",
        },
    ),
    AskSpec(
        what="admission",
        key="job_id",
        askers=("node-agent",),
        answerer="recovery-planner",
        summary="May this agent take part in the job? No answer is not fatal: the planner may start later.",
        question={
            "node_id": "who asks",
            "instance_id": "this life of the agent",
            "spec": "what the user asked for (JobSpec); all agents of a job must bring the same",
        },
        answer={"admitted": "true or false", "reason": "why, in one sentence"},
    ),
    AskSpec(
        what="host_health",
        key="node_id",
        askers=("cli", "node-agent", "console", "operator"),
        answerer="node-agent",
        summary="Everything that the host role of this machine watches, with age. No responders: nobody watches it.",
        question={},
        answer={
            "node_id": "who answers",
            "instance_id": "this life of the host role",
            "boot_id": "of the machine",
            "host": "the machine's own name",
            "uptime_s": "of the machine; null where it cannot be told",
            "started_at": "of this life",
            "answered_at": "now, by the machine's clock",
            "collectors": "each collector and event source: name, state, looks, misses, age_s, took_s, problem",
            "events_dropped": "events that came faster than they could be stored, since the start",
            "rows": (
                "the worst first: component, component_id, check, health, detail, values, attributes, count, old, "
                "event, source, age_s, observed_at"
            ),
            "cut": "rows that did not fit",
        },
    ),
    AskSpec(
        what="planner",
        key="role, always `leader`",
        askers=("recovery-planner", "node-agent"),
        answerer="recovery-planner",
        summary=(
            "Does somebody lead? A standby asks each second; no responders: it takes the lead. "
            "An agent asks when it has heard no command for a while: whether it is alone."
        ),
        question={},
        answer="instance_id of the planner that leads",
    ),
    AskSpec(
        what="hardware",
        key="always `ledger`",
        askers=("cli", "node-agent", "console", "operator"),
        answerer="health-ingest",
        summary="Read the bad-hardware ledger. The first replica that replies counts.",
        question={"verb": "list | show", "device_id": "gpu uuid or GUID; empty with list"},
        answer=_LEDGER_ANSWER,
    ),
    AskSpec(
        what="hardware_change",
        key="always `ledger`",
        askers=("cli", "recovery-planner"),
        answerer="health-ingest",
        summary=(
            "Change an entry of the bad-hardware ledger. Apart from reading it, so that a node may look and not touch: "
            "one that could release devices, or hold others' back, would need no fault to harm a cluster."
        ),
        question={
            "verb": "quarantine | release",
            "device_id": "gpu uuid or GUID",
            "by": "who asks; recorded",
            "reason": "why; recorded",
            "until": "end of a quarantine as ISO 8601 time; empty: until it is released",
        },
        answer=_LEDGER_ANSWER,
    ),
    AskSpec(
        what="tend",
        key="role, always `leader`",
        askers=("cli", "operator"),
        answerer="recovery-planner",
        summary="Take a node out of use, empty it, or let it go. The planner that leads answers.",
        question={
            "verb": "quarantine | drain | release",
            "node_id": "the node",
            "by": "who asks; recorded",
            "reason": "why; recorded, and told to the jobs there",
            "within_s": "drain: jobs there are stopped by plan within it; empty: they go on to their next stop",
        },
        answer={
            "ok": "true: the node is as asked",
            "error": "what is wrong with the question, or why it is refused; empty when ok",
            "phase": "phase of the node now",
            "sentence": "what was done, and what follows",
        },
    ),
)

_BY_WHAT = {spec.what: spec for spec in ASKS}


def ask_spec(what: str) -> AskSpec:
    """The registration of a question.

    Raises:
        KeyError: it is not registered.
    """
    return _BY_WHAT[what]
