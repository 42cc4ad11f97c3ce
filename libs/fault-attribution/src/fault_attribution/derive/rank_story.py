"""What the rank was doing that did not come: the last activity that its own output tells.

rank_in_data, rank_in_preprocessing, rank_in_evaluation, rank_in_checkpoint, rank_in_download, rank_in_compile,
rank_in_own_work   its last words are about this
rank_skipped       it left a step or the loop by its own decision
rank_left_early    it ended with 0 while others waited
rank_died_first    it failed for a reason of its own while others waited
rank_trained_on    its last words are a step: nothing explains why it did not come
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fault_attribution.derive.collectives import NOTICED, WAITED, rank_of
from fault_attribution.derive.following import following
from fault_attribution.derive.in_order import in_order
from fault_attribution.finding import Finding, Role

ACTIVITIES = {
    "loading_data": "rank_in_data",
    "stack_in_data": "rank_in_data",
    "data_bound_told": "rank_in_data",
    "loader_timeout": "rank_in_data",
    "preprocessing": "rank_in_preprocessing",
    "evaluating": "rank_in_evaluation",
    "stack_in_evaluation": "rank_in_evaluation",
    "saving_checkpoint": "rank_in_checkpoint",
    "stack_in_checkpoint": "rank_in_checkpoint",
    "rank_zero_work": "rank_in_own_work",
    "downloading": "rank_in_download",
    "compiling": "rank_in_compile",
    "recompiling": "rank_in_compile",
    "rank_skips": "rank_skipped",
    "step_done": "rank_trained_on",
}
READS = frozenset({"missing_rank", "rank_behind"})
_SAID = {
    "rank_in_data": "was reading data",
    "rank_in_preprocessing": "was still preprocessing",
    "rank_in_evaluation": "was evaluating",
    "rank_in_checkpoint": "was in a checkpoint",
    "rank_in_own_work": "was doing work that the others do not",
    "rank_in_download": "was downloading",
    "rank_in_compile": "was compiling",
    "rank_skipped": "left out what the others did",
    "rank_trained_on": "was training as far as its output tells",
}
_FOLLOWS = frozenset({"nccl_watchdog_abort", "nccl_work_status", "nccl_system_error", "library_exception"})


def rank_story(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive what each missing or late rank was doing."""
    # A stable order: what is derived must not depend on how streams interleave.
    findings = in_order(findings)
    absent = {each.rank: each for each in findings if each.kind in ("missing_rank", "rank_behind")}
    if not absent:
        return
    by_rank: dict[int, list[Finding]] = {}
    for each in findings:
        rank = rank_of(each)
        if rank is not None and rank in absent and each.kind not in ("missing_rank", "rank_behind"):
            by_rank.setdefault(rank, []).append(each)
    for rank, own in sorted(by_rank.items()):
        yield from _story(rank, own)


def _story(rank: int, own: Sequence[Finding]) -> Iterator[Finding]:
    told: set[str] = set()
    for last in _last_words(own):
        kind = ACTIVITIES[last.kind]
        if kind not in told:
            told.add(kind)
            yield _of(last, kind, rank, f"rank {rank} {_SAID[kind]} while the others waited: {last.text}")
    waited = any(each.kind in WAITED for each in own)
    left = next((each for each in own if each.kind == "exit_clean"), None)
    failed = any(each.kind == "exit_failed" for each in own)
    if left is not None and not waited and not failed:
        yield _of(left, "rank_left_early", rank, f"rank {rank} had ended with 0 while the others waited for it")
    died = next((each for each in own if _of_its_own(each)), None)
    if died is not None and not waited:
        yield _of(died, "rank_died_first", rank, f"rank {rank} failed while the others waited for it: {died.text}")


def _last_words(own: Sequence[Finding]) -> list[Finding]:
    """The last activity of each stream: only within one is their order known."""
    last: dict[tuple[str, str], Finding] = {}
    for each in own:
        if each.kind in ACTIVITIES:
            key = (str(each.source), each.stream)
            if key not in last or each.number >= last[key].number:
                last[key] = each
    # A step in one stream says nothing against a phase in another: phases are told where they are written.
    phases = [each for each in last.values() if ACTIVITIES[each.kind] != "rank_trained_on"]
    return sorted(phases or last.values(), key=lambda each: each.place)


def _of_its_own(finding: Finding) -> bool:
    if finding.kind in WAITED or finding.kind in NOTICED or finding.kind in _FOLLOWS:
        return False
    return finding.role is Role.CAUSE or finding.kind in ("python_exception", "nan_loss", "python_fatal")


def _of(base: Finding, kind: str, rank: int, text: str) -> Finding:
    return following(base, kind, text[:400], rule_id="derive.rank_story", rank=rank, count=1)
