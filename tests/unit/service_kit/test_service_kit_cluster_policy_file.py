"""A cluster's policy from a file: what is wrong is told with file and line, before a planner leads."""

from pathlib import Path

import pytest

from fault_contracts.cluster_policy import (
    ClusterPolicy,
    LadderPolicy,
)
from fault_contracts.remediation import Rung
from service_kit.cluster_policy_file import read_cluster_policy
from service_kit.yaml_fields import PolicyRefused

ROOT = Path(__file__).parents[3]


def test_the_example_is_sound_and_a_dry_run() -> None:
    policy = read_cluster_policy(ROOT / "examples" / "cluster.yaml")
    assert policy.ladder is not None
    assert policy.dry_run


@pytest.mark.parametrize("part", ["ladder", "probation", "breaker", "pool", "jobs"])
def test_the_page_names_every_field(part: str) -> None:
    page = (ROOT / "docs" / "node-lifecycle.md").read_text()
    model = type(getattr(ClusterPolicy(ladder=LadderPolicy()), part))
    missing = [name for name in model.model_fields if f"`{part}.{name}`" not in page]
    assert missing == []
    assert "`dry_run`" in page


def read(tmp_path: Path, text: str) -> ClusterPolicy:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    return read_cluster_policy(path)


def test_a_whole_policy(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n7\n")
    policy = read(
        tmp_path,
        """
cluster:
  dryRun: true
  ladder: {rungs: [reset_gpu, replace_node], rounds_min: 3}
  breaker: {share_max: 0.2}
  pool: {kind: static, file: nodes, labels: {gpu: h200}}
""",
    )
    assert policy.dry_run
    assert policy.ladder is not None
    assert policy.ladder.rungs == (Rung.RESET_GPU, Rung.REPLACE_NODE)
    assert policy.pool.labels == {"gpu": "h200"}


def test_an_empty_ladder_takes_all_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "ladder: {}\n").ladder is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ladder: {rungs: [reboot_node, reset_gpu]}", "rungs must rise"),
        ("ladder: {rungs: []}", "at least 1"),
        ("breaker: {share_max: 0}", "greater than 0"),
        ("breaker: {share_max: 1.5}", "less than or equal to 1"),
        ("pool: {kind: static}", "needs a file"),
        ("pool: {kind: none, file: nodes}", "reads no file"),
        ("ladder: {}\npool: {kind: static, file: missing}", "no such file"),
        ("pool: {kind: simulated}", "of no use without a ladder"),
        ("ladder: {rungs: [reset_gpu]}\npool: {kind: simulated}", "of no use without a ladder"),
        ("probation: {length_s: 99999999}", "less than or equal"),
        ("laddder: {}", "unknown field laddder"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(PolicyRefused, match=problem) as error:
        read(tmp_path, text + "\n")
    assert "cluster.yaml" in str(error.value)
