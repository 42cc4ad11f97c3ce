"""The language of cause rules."""

import pytest

from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role
from fault_attribution.term import FindingsByKind, TermRefused, parse_term


def seen(kind: str, **fields: object) -> Finding:
    values = {"finding_id": f"{kind}/{fields.get('node')}/{fields.get('rank')}/{fields.get('process')}", **fields}
    return Finding(kind=kind, role=Role.CAUSE, source=Source.KMSG, **values)  # type: ignore[arg-type]


FINDINGS = FindingsByKind(
    [
        seen("xid_13", node="a", device="b1", process="1", captures={"sm": "0", "seq": "5"}),
        seen("xid_13", node="a", device="b1", process="2", captures={"sm": "0"}),
        seen("xid_45", node="b", device="c1", process="7"),
        seen("exit_failed", node="a", rank=3, captures={"signal": "9"}),
        seen("exit_failed", node="b", rank=4, captures={"code": "1", "signal": ""}),
    ]
)
ANCHOR = FINDINGS.of(["xid_13"])[0]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("xid_13", True),
        ("xid_*", True),
        ("xid_79|xid_45", True),
        ("xid_79", False),
        ("!xid_79", True),
        ("!xid_13", False),
        ("xid_13 & !xid_79 & exit_failed", True),
        ("xid_13[processes>=2]", True),
        ("xid_13[processes>=3]", False),
        ("xid_13[nodes>=2]", False),
        ("xid_*[nodes>=2]", True),
        ("xid_13[sm=0, processes>=2]", True),
        ("xid_13[sm=1]", False),
        ("xid_13[seq>4]", True),
        ("xid_13[seq>4, count>=2]", False),
        ("exit_failed[signal=9]", True),
        ("exit_failed[signal=11]", False),
        ("exit_failed[signal!=9]", True),
        ("exit_failed[code~^1$]", True),
        ("exit_failed@node", True),
        ("exit_failed[signal=9]@elsewhere", False),
        ("xid_45@elsewhere", True),
        ("xid_45@node", False),
        ("xid_13@device", True),
        ("xid_45@device", False),
        ("exit_failed@rank", False),
        ("exit_failed[role=cause]", True),
        ("exit_failed[rank=3]", True),
    ],
)
def test_term(text: str, *, holds: bool) -> None:
    assert (parse_term(text).holds(FINDINGS, ANCHOR) is not None) is holds


def test_without_an_anchor_nothing_is_near() -> None:
    assert parse_term("xid_13@node").holds(FINDINGS, None) is None


@pytest.mark.parametrize(
    "text", ["", "Xid", "xid_13@planet", "xid_13[sm]", "xid_13[sm~(]", "xid_13 && xid_45", "xid_13[sm=1", "a b"]
)
def test_what_is_not_of_the_language_is_refused(text: str) -> None:
    with pytest.raises(TermRefused):
        parse_term(text)


def test_an_absent_capture_is_equal_to_nothing() -> None:
    assert parse_term("xid_45[sm=0]").holds(FINDINGS, None) is None
    assert parse_term("xid_45[sm!=0]").holds(FINDINGS, None) is not None
