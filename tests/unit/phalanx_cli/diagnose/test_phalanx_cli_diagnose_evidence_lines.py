"""Derived findings are traced to the lines that were read."""

from fault_attribution.finding import Finding, Role
from phalanx_cli.diagnose.evidence_lines import TRACED_MAX, EvidenceIndex


def finding(name: str, *, number: int = 0, because: tuple[str, ...] = (), rule_id: str = "derive.x") -> Finding:
    return Finding(
        finding_id=name, kind=f"kind_{name}", role=Role.CAUSE, text=f"text of {name}", stream="a.log" if number else "",
        number=number, because=because, rule_id=rule_id,
    )  # fmt: skip


def test_a_derived_finding_at_a_line_shows_the_line_itself() -> None:
    read, derived = finding("read", number=3, rule_id="sig.x"), finding("derived", number=3)
    [row] = EvidenceIndex([read, derived]).rows([derived, read])
    assert (row.file, row.number, row.text, row.kind) == ("a.log", 3, "text of read", "kind_derived")


def test_one_over_many_lines_shows_what_it_rests_on() -> None:
    lines = [finding(f"l{number}", number=number, rule_id="sig.x") for number in (1, 2)]
    middle = finding("middle", because=("l1", "l2", "gone"))
    top = finding("top", because=("middle", "top"))
    assert [row.number for row in EvidenceIndex([*lines, middle, top]).rows([top])] == [1, 2]


def test_what_rests_on_nothing_is_shown_as_it_is() -> None:
    [row] = EvidenceIndex([]).rows([finding("alone")])
    assert (row.number, row.text) == (0, "text of alone")


def test_many_lines_are_bounded() -> None:
    lines = [finding(f"l{number}", number=number, rule_id="sig.x") for number in range(1, 1_000)]
    top = finding("top", because=tuple(each.finding_id for each in lines))
    assert len(EvidenceIndex([*lines, top]).rows([top])) == TRACED_MAX
