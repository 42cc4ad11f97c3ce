"""The same error in many places, or again."""

from __future__ import annotations

from fault_attribution.derive.user_same_code import same_code
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role


def _error(
    rank: int, node: str = "n1", at_s: float | None = None, number: int = 1, kind: str = "python_exception",
    text: str = "KeyError: 'x'", **captures: str,
) -> Finding:  # fmt: skip
    return Finding(
        finding_id=f"{kind}:{node}:{rank}:{number}", kind=kind, role=Role.SYMPTOM, source=Source.WORKER_STDERR,
        node=node, rank=rank, at_s=at_s, number=number, text=text, captures=captures,
    )  # fmt: skip


def _exit(rank: int, number: int, node: str = "n1") -> Finding:
    return Finding(
        finding_id=f"exit:{node}:{rank}:{number}", kind="exit_failed", role=Role.CONTEXT, source=Source.EXIT,
        node=node, rank=rank, number=number,
    )  # fmt: skip


def test_several_ranks_with_one_error() -> None:
    found = list(same_code([_error(0), _error(5, node="n2")]))
    assert [(each.kind, each.captures["ranks"], each.captures["nodes"]) for each in found] == [
        ("same_error_everywhere", "2", "2")
    ]
    assert list(same_code([_error(0), _error(5, text="ValueError: other")])) == []


def test_numbers_in_a_message_do_not_make_it_another() -> None:
    one, two = _error(0, text="[rank0]: index 17 of 0x7f"), _error(1, text="[rank1]: index 99 of 0x8f")
    assert [each.kind for each in same_code([one, two])] == ["same_error_everywhere"]


def test_again_needs_a_restart_or_minutes() -> None:
    pair = [_error(3, number=1), _error(3, number=9)]
    assert list(same_code(pair)) == [], "one traceback may print its error twice"
    assert [each.kind for each in same_code([*pair, _exit(3, 2), _exit(3, 10)])] == ["same_error_again"]
    assert list(same_code([*pair, _exit(3, 2), _exit(4, 10)])) == [], "the other exit is another rank's"
    late = [_error(3, at_s=0, number=1), _error(3, at_s=400, number=9)]
    assert [each.kind for each in same_code(late)] == ["same_error_again"]
    soon = [_error(3, at_s=0, number=1), _error(3, at_s=50, number=9)]
    assert list(same_code(soon)) == [], "offsets are not known to a minute"


def test_order_does_not_matter() -> None:
    given = [_error(0), _error(5, node="n2"), _error(3, number=1), _error(3, number=9), _exit(3, 2), _exit(3, 10)]
    forwards, backwards = list(same_code(given)), list(same_code(given[::-1]))
    assert len(forwards) == 2
    assert {(each.finding_id, *each.captures.values()) for each in forwards} == {
        (each.finding_id, *each.captures.values()) for each in backwards
    }
