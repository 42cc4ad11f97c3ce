"""What ranks share: stale files, storage trouble, files that some nodes lack, failures that come again."""

from __future__ import annotations

from fault_attribution.derive.host_sharing import sharing
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role


def _seen(
    kind: str, node: str = "n1", rank: int | None = 0, *, at_s: float | None = None,
    source: Source = Source.WORKER_STDERR, role: Role = Role.CAUSE, **captures: str,
) -> Finding:  # fmt: skip
    return Finding(
        finding_id=f"{kind}:{node}:{rank}:{at_s}", kind=kind, role=role, node=node, rank=rank, at_s=at_s,
        source=source, captures=captures,
    )  # fmt: skip


def _kinds(*findings: Finding) -> list[str]:
    return sorted(each.kind for each in sharing(findings))


def test_one_stale_file_on_several_ranks_is_a_race_and_several_files_are_the_server() -> None:
    one, same = _seen("stale_handle", path="/c/a"), _seen("stale_handle", "n2", 9, path="/c/a")
    other = _seen("stale_handle", "n3", 4, path="/c/b")
    assert _kinds(one, same) == ["stale_one_file", "storage_failed_many"]
    assert _kinds(one, other) == ["stale_many_files", "storage_failed_many"]
    assert _kinds(one) == []


def test_a_module_missing_on_one_node_while_others_run() -> None:
    missing = _seen("module_missing", "n1", 8)
    runs = _seen("step_done", "n2", 0, source=Source.WORKER_STDOUT, role=Role.PROGRESS)
    assert _kinds(missing, runs) == ["absent_on_some_nodes"]
    assert _kinds(missing, _seen("module_missing", "n2", 0)) == []
    assert _kinds(missing) == []


def test_a_failure_that_comes_again_minutes_later() -> None:
    first = _seen("exit_failed", source=Source.EXIT, at_s=0.0, code="1")
    assert "failed_again" in _kinds(first, _seen("exit_failed", source=Source.EXIT, at_s=400.0, code="1"))
    assert "failed_again" not in _kinds(first, _seen("exit_failed", source=Source.EXIT, at_s=9.0, code="1"))
    assert "failed_again" not in _kinds(first, _seen("exit_failed", "n2", 4, source=Source.EXIT, at_s=400.0, code="1"))


def test_a_kill_is_unexplained_only_when_nobody_is_known() -> None:
    killed = _seen("exit_failed", source=Source.EXIT, code="137", signal="9")
    assert _kinds(killed) == ["killed_unexplained"]
    assert _kinds(killed, _seen("oom_kill", source=Source.KMSG)) == []
    assert _kinds(_seen("exit_failed", source=Source.EXIT, code="1", signal="")) == []
