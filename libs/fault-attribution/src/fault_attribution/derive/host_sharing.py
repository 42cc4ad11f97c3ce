"""What ranks share: a file that is stale for several, storage that fails for many, a file that only some nodes see.

Derived:

    stale_one_file        several ranks found one and the same file stale: they race for it
    stale_many_files      different files are stale, on different nodes or for different jobs: their server is at fault
    storage_failed_many   one kind of storage trouble on several nodes; captures trouble, on
    absent_on_some_nodes  a file or module is missing on some nodes while other nodes of the job run on
    failed_again          the same rank failed more than a minute apart: what is wrong stays wrong
    killed_unexplained    killed from outside, and nothing says by whom
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fault_attribution.derive.following import following
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role

_STORAGE = (
    "nfs_server", "lustre_trouble", "gpfs_trouble", "shared_fs_trouble", "mount_dead", "stale_handle", "io_error",
    "object_store_unavailable", "object_store_throttled", "hdfs_trouble", "volume_mount_failed",
    "name_resolution_failed",
)  # fmt: skip
_ABSENT = ("module_missing", "file_missing", "entrypoint_missing")
_KILLERS = frozenset({
    "oom_kill", "container_oom_killed", "oom_invoked", "preempted", "spot_reclaimed", "pod_evicted", "pod_drained",
    "scaled_down", "time_limit", "job_cancelled", "node_shutdown", "orderly_shutdown", "remediation_reboot",
    "node_not_ready", "pod_lost", "node_taint_eviction", "cloud_maintenance", "requeued", "memory_limit_hit",
    "host_memory_full", "keyboard_interrupt", "launcher_stops_siblings", "launcher_stops_peers", "container_stopping",
    "own_storage_limit", "node_low_on", "step_cancelled",
})  # fmt: skip
READS = frozenset({*_STORAGE, *_ABSENT, "exit_failed"})
_SIGKILL, _SIGTERM = "9", "15"
APART_S = 60.0
"""Offsets are approximate; only minutes are told apart."""


def sharing(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    yield from _stale(findings)
    for kind in _STORAGE:
        found = [each for each in findings if each.kind == kind and each.node]
        nodes = {each.node for each in found}
        if len(nodes) > 1:
            told = _told(found, "storage_failed_many", Role.CONTEXT, f"the same on {len(nodes)} nodes: {found[0].text}")
            yield replace(told, node="", rank=None, captures={"trouble": kind, "on": str(len(nodes))})
    yield from _absent(findings)
    yield from _again(findings)
    yield from _unexplained(findings)


def _stale(findings: Sequence[Finding]) -> Iterator[Finding]:
    by_path: dict[str, list[Finding]] = {}
    for each in findings:
        if each.kind == "stale_handle" and each.captures.get("path"):
            by_path.setdefault(each.captures["path"], []).append(each)
    for path, found in sorted(by_path.items()):
        if len({(each.node, each.rank) for each in found}) > 1:
            yield _told(found, "stale_one_file", Role.CONTEXT, f"several ranks found {path} stale")
    if len(by_path) > 1:
        all_found = [each for _, found in sorted(by_path.items()) for each in found]
        yield _told(all_found, "stale_many_files", Role.CONTEXT, f"{len(by_path)} different files are stale")


def _absent(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Other nodes run on when their workers say anything and do not miss the same; a silent node is no witness."""
    found = [each for each in findings if each.kind in _ABSENT and each.node]
    lacking = {each.node for each in found}
    running = {
        each.node
        for each in findings
        if each.node and each.source in (Source.WORKER_STDOUT, Source.WORKER_STDERR)
        and (each.role is Role.PROGRESS or each.kind == "startup_done")
    }  # fmt: skip
    others = sorted(running - lacking)
    if found and others:
        text = f"missing on {', '.join(sorted(lacking))}, while {', '.join(others[:4])} found it: {found[0].text}"
        yield _told(found, "absent_on_some_nodes", Role.CAUSE, text)


def _again(findings: Sequence[Finding]) -> Iterator[Finding]:
    by_place: dict[tuple[str, int | None], list[Finding]] = {}
    for each in findings:
        if each.kind == "exit_failed" and each.at_s is not None and (each.node or each.rank is not None):
            by_place.setdefault((each.node, each.rank), []).append(each)
    for place in sorted(by_place, key=str):
        found = by_place[place]
        times = [each.at_s for each in found if each.at_s is not None]
        if max(times) - min(times) > APART_S:
            yield _told(found, "failed_again", Role.CONTEXT, "the same process failed again after it was restarted")


def _unexplained(findings: Sequence[Finding]) -> Iterator[Finding]:
    if any(each.kind in _KILLERS for each in findings):
        return
    killed = [
        each for each in findings if each.kind == "exit_failed" and each.captures.get("signal") in (_SIGKILL, _SIGTERM)
    ]
    if killed:
        yield _told(killed, "killed_unexplained", Role.SYMPTOM, f"killed, and nothing says by whom: {killed[0].text}")


def _told(found: Sequence[Finding], kind: str, role: Role, text: str) -> Finding:
    base = min(found, key=lambda one: one.place)
    return following(base, kind, text, rule_id="derive.host_sharing", role=role, rests_on=found)
