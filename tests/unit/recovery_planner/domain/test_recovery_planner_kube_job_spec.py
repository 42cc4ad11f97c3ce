"""What a TrainingJob may ask for, and what its pods are told."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from recovery_planner.domain.kube_job_objects import LauncherPlace, config_body, pod_body
from recovery_planner.domain.kube_job_spec import problems_of, read_wish
from recovery_planner.domain.kube_launcher import PodEnd, calls_launcher, end_of

ROOT = Path(__file__).resolve().parents[4]
DEFINITION = yaml.safe_load((ROOT / "deploy/kubernetes/crd/trainingjob.yaml").read_text(encoding="utf-8"))
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
EXAMPLE = yaml.safe_load((ROOT / "examples/trainingjob.yaml").read_text(encoding="utf-8"))
PLACE = LauncherPlace(nats_url="tls://bus:4222", cluster="c", secret="phalanx-launcher")


def job(**spec: Any) -> dict[str, Any]:
    container = {"name": "trainer", "image": "llm", "command": ["phalanx", "run", "train.py"]}
    template = {"spec": {"containers": [container]}}
    meta = {"name": "llm", "namespace": "ml", "uid": "0123456789ab", "generation": 1}
    return {"metadata": meta, "spec": {"nnodes": 2, "template": template, **spec}}


def container(**fields: Any) -> dict[str, Any]:
    one = {"name": "trainer", "command": ["phalanx", "run", "train.py"], **fields}
    return {"template": {"spec": {"containers": [one]}}}


def test_the_example_is_valid_and_can_be_done() -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(EXAMPLE)
    assert problems_of(EXAMPLE) == ()


def test_defaults_of_the_definition_are_those_of_the_operator() -> None:
    properties = SCHEMA["properties"]["spec"]["properties"]
    wish = read_wish(job())
    deadlines = properties["deadlines"]["properties"]
    told = {
        "spares": wish.spares,
        "rankOrder": wish.rank_order,
        "gracePeriodSeconds": wish.grace_s,
        "podFailuresMax": wish.pod_failures_max,
        "cleanup": wish.cleanup,
        "suspend": wish.suspend,
    }
    assert {name: properties[name]["default"] for name in told} == told
    assert str(properties["nprocPerNode"]["default"]) == wish.nproc_per_node
    limits = {
        "admissionSeconds": wish.admission_s,
        "backoffSeconds": wish.backoff_first_s,
        "backoffMaxSeconds": wish.backoff_max_s,
        "triesMax": wish.tries_max,
        "unreachableSeconds": wish.unreachable_s,
    }
    assert {name: deadlines[name]["default"] for name in limits} == limits


def test_every_field_says_what_it_is_for() -> None:
    spec = SCHEMA["properties"]["spec"]["properties"]
    fields = {**spec, **spec["deadlines"]["properties"], **spec["elastic"]["properties"]}
    assert [name for name, field in fields.items() if not field.get("description")] == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nnodes": 0}, "spec.nnodes"),
        ({"nprocPerNode": "many"}, "spec.nprocPerNode"),
        ({"spares": -1}, "spec.spares"),
        ({"elastic": {"minNodes": 3}}, "spec.elastic.minNodes"),
        ({"nnodes": 5, "elastic": {"minNodes": 1, "replicaNodes": 2}}, "spec.elastic.replicaNodes"),
        ({"elastic": {"minNodes": 1}, "policy": {"elastic": {"nnodes_min": 1}}}, "spec.elastic"),
        ({"container": "other"}, "spec.container"),
        ({"template": {"spec": {"containers": []}}}, "spec.template.spec.containers"),
        (container(command=["torchrun", "train.py"]), "spec.template.spec.containers[0].command"),
        (
            container(args=["--nnodes=4", "train.py"], command=["phalanx", "run"]),
            "spec.template.spec.containers[0].args",
        ),
        (container(env=[{"name": "PET_NNODES", "value": "9"}]), "spec.template.spec.containers[0].env"),
        (
            {"nprocPerNode": 8, **container(resources={"limits": {"nvidia.com/gpu": "4"}})},
            "spec.template.spec.containers[0].resources.limits",
        ),
    ],
)
def test_what_cannot_be_done_is_named_by_field(spec: dict[str, Any], field: str) -> None:
    assert [problem.field for problem in problems_of(job(**spec))] == [field]


@pytest.mark.parametrize("field", ["hostNetwork", "hostname", "nodeName"])
def test_what_the_operator_sets_itself_is_refused(field: str) -> None:
    body = job()
    body["spec"]["template"]["spec"][field] = "x"
    assert [problem.field for problem in problems_of(body)] == [f"spec.template.spec.{field}"]


def test_flags_of_the_script_are_its_own() -> None:
    assert problems_of(job(**container(command=["phalanx", "run", "train.py", "--nnodes", "3"]))) == ()


def test_a_pod_tells_its_launcher_what_it_needs() -> None:
    wish = read_wish(job(spares=1, elastic={"minNodes": 1}, gracePeriodSeconds=60, rankOrder="PodIndex"))
    pod = pod_body(wish, 1, PLACE, ("bad",))
    spec = pod["spec"]
    env = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    assert env["PET_RDZV_ID"] == "ml/llm.01234567" == wish.job_id
    assert (env["PET_NNODES"], env["PET_SPARES"], env["PET_NODE_RANK"]) == ("2", "1", "1")
    assert env["PET_POLICY"] == "/etc/phalanx/job/policy.yaml"
    assert '"nnodes_min": 1' in config_body(wish)["data"]["policy.yaml"]
    assert spec["terminationGracePeriodSeconds"] == 75
    assert (spec["hostname"], spec["subdomain"], spec["restartPolicy"]) == ("llm-1", "llm", "Never")
    seed = next(m for m in spec["containers"][0]["volumeMounts"] if m["mountPath"].endswith("launcher.nk"))
    assert seed["subPathExpr"] == "launcher-$(PET_NODE_ID).nk", "the seed of its own node and of no other"
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}]}]
    assert wish.template["spec"]["containers"][0].get("env") is None, "the template is the cache's"


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (["phalanx", "run", "train.py"], True),
        (["/opt/venv/bin/phalanx", "run"], True),
        (["sh", "-c", "pip install . && exec phalanx run train.py"], True),
        (["python", "-m", "phalanx_cli", "run", "train.py"], True),
        (["phalanx", "status"], False),
        (["python", "phalanx_run.py"], False),
        ([], False),
    ],
)
def test_the_launcher_is_recognised(words: list[str], calls: bool) -> None:
    assert calls_launcher(words) is calls


def test_exit_codes_mean_what_the_launcher_says() -> None:
    meant = {0: PodEnd.SUCCEEDED, 1: PodEnd.JOB_FAILED, 75: PodEnd.NO_CAPACITY, 78: PodEnd.REFUSED}
    meant |= {143: PodEnd.DISRUPTED, 130: PodEnd.DISRUPTED, 137: PodEnd.FAILED, 69: PodEnd.FAILED, 70: PodEnd.FAILED}
    assert {code: end_of(code) for code in meant} == meant
