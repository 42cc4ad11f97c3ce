"""The objects that a TrainingJob is made of: its pods, its headless service, its ConfigMap. Bodies, nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recovery_planner.domain.kube_job_spec import GROUP, KIND, VERSION, JobWish, RankOrder
from recovery_planner.domain.kube_pods import LABEL_INDEX, LABEL_JOB, LABEL_UID

FOLDER = "/etc/phalanx/job"
BUS_FOLDER = "/etc/phalanx/bus"
DATA_FOLDER = "/var/run/phalanx"
POLICY_FILE = "policy.yaml"
LOG_RULES_FILE = "log-rules.yaml"
GRACE_MARGIN_S = 15
"""Beyond the launcher's own time-out: SIGKILL of what does not stop, and the last events to the bus."""
AWAY_TOLERATED_S = 30
"""A pod on a node that has gone is deleted after it, not after Kubernetes' 300 s."""
_AWAY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherPlace:
    """What the launchers of a cluster need to know, from the operator's settings.

    Attributes:
        nats_url: the bus, as seen from a pod.
        cluster: name of the cluster on the bus.
        secret: of the job's namespace, with `ca.crt` and the launchers' seeds; empty: the bus needs none.
        seed_key: key of the seed in it; `$(NODE)` is the node's name.
    """

    nats_url: str
    cluster: str
    secret: str = ""
    seed_key: str = "launcher-$(PET_NODE_ID).nk"


def labels_of(job: JobWish) -> dict[str, str]:
    """What our objects carry; pods have the index as well."""
    return {LABEL_JOB: job.name, LABEL_UID: job.uid, "app.kubernetes.io/managed-by": "phalanx-operator"}


def owner_of(job: JobWish) -> dict[str, Any]:
    """With it the object goes when the job goes."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def service_body(job: JobWish) -> dict[str, Any]:
    """Headless: it gives each pod its DNS name, also before it is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(job, job.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL_JOB: job.name, LABEL_UID: job.uid},
        },
    }


def config_body(job: JobWish) -> dict[str, Any]:
    """Policy and log rules. JSON is YAML, and the launcher reads YAML."""
    data = {}
    if job.policy:
        data[POLICY_FILE] = json.dumps({"recovery": job.policy}, indent=2, sort_keys=True) + "\n"
    if job.log_rules:
        data[LOG_RULES_FILE] = json.dumps({"rules": list(job.log_rules)}, indent=2) + "\n"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(job, f"{job.name}-phalanx"), "data": data}


def pod_body(job: JobWish, index: int, place: LauncherPlace, avoid_nodes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The pod of one index: the template, and what the launcher needs."""
    template = _plain(job.template)
    meta = template.get("metadata") or {}
    spec = template.get("spec") or {}
    spec["restartPolicy"] = "Never"
    spec["hostname"] = job.pod_name(index)
    spec["subdomain"] = job.name
    spec["terminationGracePeriodSeconds"] = max(
        job.grace_s + GRACE_MARGIN_S, int(spec.get("terminationGracePeriodSeconds") or 0)
    )
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    spec["affinity"] = _affinity(spec.get("affinity") or {}, job, avoid_nodes)
    spec["volumes"] = [*(spec.get("volumes") or []), *_volumes(job, place)]
    for container in spec.get("containers") or []:
        if container.get("name") == job.container:
            given = container.get("env") or []
            names = {each.get("name") for each in given}
            container["env"] = [*given, *(e for e in _environment(job, index, place) if e["name"] not in names)]
            container["volumeMounts"] = [*(container.get("volumeMounts") or []), *_mounts(place)]
            container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_meta(job, job.pod_name(index)),
            "labels": {**(meta.get("labels") or {}), **labels_of(job), LABEL_INDEX: str(index)},
            "annotations": dict(meta.get("annotations") or {}),
        },
        "spec": spec,
    }


def adoption_body(job: JobWish, uid: str) -> dict[str, Any]:
    """Makes a pod that belongs to nobody ours; the uid in it refuses another pod of that name."""
    return {"metadata": {"uid": uid, "labels": labels_of(job), "ownerReferences": [owner_of(job)]}}


def _meta(job: JobWish, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": labels_of(job),
        "ownerReferences": [owner_of(job)],
    }


def _environment(job: JobWish, index: int, place: LauncherPlace) -> list[dict[str, Any]]:
    values = {
        "PET_NNODES": str(job.nnodes),
        "PET_NPROC_PER_NODE": job.nproc_per_node,
        "PET_SPARES": str(job.spares),
        "PET_RDZV_ID": job.job_id,
        "PET_SHUTDOWN_TIMEOUT": str(job.grace_s),
        "PET_DATA_DIR": DATA_FOLDER,
        "NATS_URL": place.nats_url,
        "PHALANX_CLUSTER": place.cluster,
    }
    if job.policy:
        values["PET_POLICY"] = f"{FOLDER}/{POLICY_FILE}"
    if job.log_rules:
        values["PET_LOG_RULES"] = f"{FOLDER}/{LOG_RULES_FILE}"
    if job.rank_order is RankOrder.POD_INDEX and index < job.nnodes:
        values["PET_NODE_RANK"] = str(index)
    if place.secret:
        values["NATS_TLS_CA"] = f"{BUS_FOLDER}/ca.crt"
        values["NATS_NKEY_SEED_FILE"] = f"{BUS_FOLDER}/launcher.nk"
    fields = {"PET_NODE_ID": "spec.nodeName", "PET_LOCAL_ADDR": "status.podIP"}
    return [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        *({"name": name, "value": value} for name, value in values.items()),
    ]


def _volumes(job: JobWish, place: LauncherPlace) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "phalanx-job", "configMap": {"name": f"{job.name}-phalanx"}},
        {"name": "phalanx-data", "emptyDir": {}},
    ]
    if place.secret:
        volumes.append({"name": "phalanx-bus", "secret": {"secretName": place.secret, "defaultMode": 0o444}})
    return volumes


def _mounts(place: LauncherPlace) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "phalanx-job", "mountPath": FOLDER, "readOnly": True},
        {"name": "phalanx-data", "mountPath": DATA_FOLDER},
    ]
    if place.secret:
        # One file each: a launcher sees the seed of its own node and of no other.
        ca = {"mountPath": f"{BUS_FOLDER}/ca.crt", "subPath": "ca.crt"}
        seed = {"mountPath": f"{BUS_FOLDER}/launcher.nk", "subPathExpr": place.seed_key}
        mounts += [{"name": "phalanx-bus", "readOnly": True, **each} for each in (ca, seed)]
    return mounts


def _tolerations(given: list[Any]) -> list[Any]:
    keys = {each.get("key") for each in given}
    ours = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": AWAY_TOLERATED_S}
        for key in _AWAY_TAINTS
        if key not in keys
    ]
    return [*given, *ours]


def _affinity(given: dict[str, Any], job: JobWish, avoid_nodes: tuple[str, ...]) -> dict[str, Any]:
    """One pod of a job on a node, for the node's name is the agent's; and not where the hardware is blamed."""
    apart = dict(given.get("podAntiAffinity") or {})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {LABEL_UID: job.uid}}}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    apart[key] = [*(apart.get(key) or []), term]
    affinity = {**given, "podAntiAffinity": apart}
    if avoid_nodes:
        on = dict(given.get("nodeAffinity") or {})
        terms = (on.get(key) or {}).get("nodeSelectorTerms") or [{}]
        avoid = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in avoid_nodes]
        # Terms are alternatives: each has to say it.
        on[key] = {"nodeSelectorTerms": [{**t, "matchFields": [*(t.get("matchFields") or []), *avoid]} for t in terms]}
        affinity["nodeAffinity"] = on
    return affinity


def _plain(template: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy; the template is the cache's."""
    copied: dict[str, Any] = json.loads(json.dumps(template))
    return copied
