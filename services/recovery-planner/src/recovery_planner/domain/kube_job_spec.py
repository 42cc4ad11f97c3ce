"""A TrainingJob as its owner wrote it, read into values; and everything in it that cannot be done, by field.

The API server refuses most of it first (schema and CEL of deploy/kubernetes/crd/trainingjob.yaml). It is looked at
again here for servers that have an older definition, and for what CEL cannot say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from recovery_planner.domain.kube_launcher import FORBIDDEN_FLAGS, OWN_VARIABLES, calls_launcher

GROUP = "phalanx.dev"
VERSION = "v1alpha1"
KIND = "TrainingJob"
NAME_LENGTH_MAX = 52
"""A pod's name, which is its host name of at most 63 characters, adds a dash and an index."""
NNODES_MAX = 10_000
SPARES_MAX = 1_000
GPU_RESOURCE = "nvidia.com/gpu"
_WORDS_FOR_NPROC = ("auto", "cpu", "gpu")


class Cleanup(StrEnum):
    """Which pods are deleted when the job has ended."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class RankOrder(StrEnum):
    """Who gets which node_rank."""

    PLACEMENT = "Placement"
    """As the planner places it: neighbours in rank are near in the network."""
    POD_INDEX = "PodIndex"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecProblem:
    """A field, and what is wrong with it."""

    field: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.field}: {self.sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWish:
    """What the owner asks for.

    Attributes:
        template: pod template as written.
        container: name of the container that runs the launcher.
        policy: the recovery policy with the elastic bounds in it; empty: none.
        log_rules: rules for the ranks' output.
        admission_s: until when all nodes of the gang must run before all are given back.
        backoff_first_s, backoff_max_s: wait before the next try, doubled each time.
        tries_max: tries to get all nodes, before the job fails.
        unreachable_s: how long a node must have been away before its pod is taken for dead.
        grace_s: what a launcher has to save and stop.
        pod_failures_max: pods that may end in a way that says nothing of the job.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    nnodes: int
    nproc_per_node: str
    spares: int
    template: Mapping[str, Any]
    container: str
    policy: Mapping[str, Any]
    log_rules: tuple[Any, ...]
    rank_order: RankOrder
    admission_s: float
    active_s: float | None
    backoff_first_s: float
    backoff_max_s: float
    tries_max: int
    unreachable_s: float
    grace_s: int
    pod_failures_max: int
    cleanup: Cleanup
    suspend: bool
    ttl_s: float | None

    @property
    def job_id(self) -> str:
        """The job's name on the bus. The uid makes it another job when an object of that name is made anew."""
        return f"{self.namespace}/{self.name}.{self.uid[:8]}"

    @property
    def pods(self) -> int:
        """Nodes that train, and spares."""
        return self.nnodes + self.spares

    def pod_name(self, index: int) -> str:
        """Stable: whoever replaces a pod has its name."""
        return f"{self.name}-{index}"


def read_wish(body: Mapping[str, Any]) -> JobWish:
    """The values, with the defaults of the definition. What is wrong with them is `problems_of`'s to say."""
    meta, spec = _map(body.get("metadata")), _map(body.get("spec"))
    deadlines = _map(spec.get("deadlines"))
    template = _map(spec.get("template"))
    policy = dict(_map(spec.get("policy")))
    if spec.get("elastic"):
        policy["elastic"] = _elastic(_map(spec["elastic"]))
    containers = containers_of(template)
    return JobWish(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        generation=int(meta.get("generation", 0)),
        deleting=bool(meta.get("deletionTimestamp")),
        nnodes=int(spec.get("nnodes", 1)),
        nproc_per_node=str(spec.get("nprocPerNode", "1")),
        spares=int(spec.get("spares", 0)),
        template=template,
        container=str(spec.get("container") or (containers[0].get("name", "") if containers else "")),
        policy=policy,
        log_rules=tuple(spec.get("logRules") or ()),
        rank_order=_choice(RankOrder, spec.get("rankOrder"), RankOrder.PLACEMENT),
        admission_s=float(deadlines.get("admissionSeconds", 600)),
        active_s=_seconds(deadlines.get("activeSeconds")),
        backoff_first_s=float(deadlines.get("backoffSeconds", 30)),
        backoff_max_s=float(deadlines.get("backoffMaxSeconds", 600)),
        tries_max=int(deadlines.get("triesMax", 20)),
        unreachable_s=float(deadlines.get("unreachableSeconds", 60)),
        grace_s=int(spec.get("gracePeriodSeconds", 30)),
        pod_failures_max=int(spec.get("podFailuresMax", 10)),
        cleanup=_choice(Cleanup, spec.get("cleanup"), Cleanup.RUNNING),
        suspend=bool(spec.get("suspend", False)),
        ttl_s=_seconds(spec.get("ttlSecondsAfterFinished")),
    )


def problems_of(body: Mapping[str, Any]) -> tuple[SpecProblem, ...]:
    """What cannot be done, by field; the first one is told first."""
    meta, spec = _map(body.get("metadata")), _map(body.get("spec"))
    template = _map(spec.get("template"))
    pod = _map(template.get("spec"))
    return tuple(
        SpecProblem(field=field, sentence=sentence)
        for field, sentence in (
            *_size_problems(str(meta.get("name", "")), spec),
            *_pod_problems(pod),
            *_launcher_problems(spec, containers_of(template)),
        )
        if sentence
    )


def _size_problems(name: str, spec: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    nnodes, spares = int(spec.get("nnodes", 1)), int(spec.get("spares", 0))
    nproc = str(spec.get("nprocPerNode", "1"))
    elastic = _map(spec.get("elastic"))
    least = int(elastic.get("minNodes", 1)) if elastic else 1
    replica = int(elastic.get("replicaNodes", 1)) if elastic else 1
    if len(name) > NAME_LENGTH_MAX or "." in name:
        yield (
            "metadata.name",
            f"at most {NAME_LENGTH_MAX} characters and no dot: pods and their host names add an index",
        )
    if not 1 <= nnodes <= NNODES_MAX:
        yield "spec.nnodes", f"is {nnodes}; 1 to {NNODES_MAX} are possible"
    if not 0 <= spares <= SPARES_MAX:
        yield "spec.spares", f"is {spares}; 0 to {SPARES_MAX} are possible"
    if nproc not in _WORDS_FOR_NPROC and not (nproc.isdecimal() and 1 <= int(nproc) <= 1_024):
        yield "spec.nprocPerNode", f"is {nproc!r}; a number from 1 to 1024, auto, cpu or gpu"
    if elastic and least > nnodes:
        yield "spec.elastic.minNodes", f"is {least}, above the {nnodes} nodes of the job"
    if replica > 1 and not elastic.get("allowedNodes") and nnodes % replica:
        yield "spec.elastic.replicaNodes", f"{nnodes} nodes are no whole replicas of {replica}"
    if any(int(size) > nnodes or int(size) < least for size in elastic.get("allowedNodes") or ()):
        yield "spec.elastic.allowedNodes", f"has a size outside {least} to {nnodes}"
    if elastic and _map(spec.get("policy")).get("elastic"):
        yield "spec.elastic", "spec.policy has elastic as well; keep one"


def _pod_problems(pod: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    at = "spec.template.spec"
    if pod.get("hostNetwork"):
        yield (
            f"{at}.hostNetwork",
            "two pods on a node would share ports, and the bus could not tell them apart; leave it out",
        )
    if pod.get("restartPolicy") not in (None, "Never"):
        yield f"{at}.restartPolicy", "must be Never: a launcher that was restarted in place is another agent"
    for name in ("hostname", "subdomain", "nodeName"):
        if pod.get(name):
            yield f"{at}.{name}", "is set by the operator, for each pod another one; leave it out"


def _launcher_problems(spec: Mapping[str, Any], containers: tuple[Mapping[str, Any], ...]) -> Iterable[tuple[str, str]]:
    if not containers:
        yield "spec.template.spec.containers", "there must be one that runs the launcher"
        return
    wanted = spec.get("container") or containers[0].get("name")
    found = next(((i, each) for i, each in enumerate(containers) if each.get("name") == wanted), None)
    if found is None:
        yield "spec.container", f"no container of the template is called {wanted}"
        return
    index, container = found
    at = f"spec.template.spec.containers[{index}]"
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    if spec.get("launcher", "Command") == "Command" and not calls_launcher(words):
        yield (
            f"{at}.command",
            (
                "does not run the launcher; write [phalanx, run, train.py], or spec.launcher: Image when the image's "
                "entrypoint is `phalanx run`"
            ),
        )
    for flag in FORBIDDEN_FLAGS:
        if any(word == flag or word.startswith(f"{flag}=") for word in _own_words(words)):
            yield f"{at}.args", f"{flag} is set by the operator, for each pod another one; leave it out"
    for each in container.get("env") or ():
        if _map(each).get("name") in OWN_VARIABLES:
            yield f"{at}.env", f"{each['name']} is set by the operator; leave it out"
    yield from _gpu_problems(at, str(spec.get("nprocPerNode", "1")), container)


def _own_words(words: list[str]) -> list[str]:
    """Words up to the script's name: what follows are the script's own."""
    for place, word in enumerate(words):
        if word.endswith(".py") or word in ("-m", "--module"):
            return words[:place]
    return words


def _gpu_problems(at: str, nproc: str, container: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    resources = _map(container.get("resources"))
    limit = str({**_map(resources.get("requests")), **_map(resources.get("limits"))}.get(GPU_RESOURCE, ""))
    if limit.isdecimal() and nproc.isdecimal() and 0 < int(limit) < int(nproc):
        yield f"{at}.resources.limits", f"{limit} of {GPU_RESOURCE} for {nproc} ranks (spec.nprocPerNode): too few"
    if nproc == "gpu" and limit in ("", "0"):
        yield f"{at}.resources.limits", f"spec.nprocPerNode is gpu, and no {GPU_RESOURCE} is asked for"


def containers_of(template: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Containers of a pod template."""
    return tuple(_map(each) for each in _map(template.get("spec")).get("containers") or ())


def _elastic(wish: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "minNodes": "nnodes_min",
        "replicaNodes": "replica_nodes",
        "allowedNodes": "nnodes_allowed",
        "waitSeconds": "wait_s",
        "snoozeSeconds": "snooze_s",
        "regrow": "regrow",
    }
    return {field: wish[name] for name, field in names.items() if name in wish}


Choice = TypeVar("Choice", bound=StrEnum)


def _choice(words: type[Choice], given: Any, default: Choice) -> Choice:
    """A word that this version does not know is the default: the definition refuses it where it is enforced."""
    return words(given) if given in set(words) else default


def _seconds(value: Any) -> float | None:
    return None if value is None else float(value)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
