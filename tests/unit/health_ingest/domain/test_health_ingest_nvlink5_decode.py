"""Decoding by layout, unit and status, on rows of our own."""

import pytest

from fault_contracts.faults import Action, Attribution
from health_ingest.domain.nvlink5_decode import Layout, decode, layout_of
from health_ingest.domain.ruling import Weight
from health_ingest.domain.xid_opinion import Opinion, read_nvlink5, read_registers
from health_ingest.domain.xid_rows import BitRule, Judgement, Nvlink5Rule, WordMatch

IGNORED = Judgement(weight=Weight.RECORD, origin=Attribution.HARDWARE, action=Action.WAIT_OR_IGNORE)
RESET = Judgement(weight=Weight.FAILURE, origin=Attribution.HARDWARE, action=Action.RESET_GPU)
ROW = Opinion(judgement=RESET, rule_id="xid.74", sentence="the row's own")


def rule(status: int, judgement: Judgement, *, one_bit: bool = True, rule_id: str = "r") -> Nvlink5Rule:
    return Nvlink5Rule(
        rule_id=rule_id, code=145, units=("OLD", "NEW STATE"), v1=WordMatch(mask=0xFF, value=0x21),
        v2=WordMatch(mask=0xF, value=0x3), statuses=(status,), one_bit=one_bit, judgement=judgement, sentence="",
        source="",
    )  # fmt: skip


def words(intr: str, status: str, unit: str = "OLD") -> dict[str, str]:
    return {"unit": unit, "intr_info": intr, "error_status": status}


@pytest.mark.parametrize(
    ("version", "layout"),
    [
        ("570.158.01", Layout.V1),
        ("574.99", Layout.V1),
        ("575.51", Layout.V2),
        ("600", Layout.V2),
        ("", None),
        ("x", None),
    ],
)
def test_the_layout_by_the_driver(version: str, layout: Layout | None) -> None:
    assert layout_of(version) is layout


def test_unit_layout_and_status_must_all_agree() -> None:
    rules = [rule(1, RESET)]
    assert decode(145, words("0x21", "0x1"), rules, Layout.V1) is not None
    assert decode(145, words("0x3", "0x1", "NEW"), rules, Layout.V2) is not None
    assert decode(145, words("0x21", "0x1"), rules, Layout.V2) is None
    assert decode(145, words("0x21", "0x2"), rules, Layout.V1) is None
    assert decode(145, words("0x21", "0x1", "OTHER"), rules, Layout.V1) is None
    assert decode(144, words("0x21", "0x1"), rules, Layout.V1) is None


def test_the_gravest_of_several_bits() -> None:
    found = decode(145, words("0x21", "0x3"), [rule(1, IGNORED), rule(2, RESET, rule_id="grave")], Layout.V1)
    assert found is not None
    assert found.rule.rule_id == "grave"


def test_a_number_is_not_a_set_of_bits() -> None:
    rules = [rule(1, RESET, one_bit=False)]
    assert decode(145, words("0x21", "0x3"), rules, Layout.V1) is None


@pytest.mark.parametrize("attributes", [{}, words("", ""), words("zz", "0x1"), words("0x21", "later")])
def test_words_that_cannot_be_read_are_recorded(attributes: dict[str, str]) -> None:
    assert decode(145, attributes, [rule(1, RESET)], Layout.V1) is None
    opinion = read_nvlink5(145, attributes | {"driver_version": "570.1"}, [rule(1, RESET)], ROW)
    assert (opinion.judgement.weight, opinion.rule_id) == (Weight.RECORD, "nvlink5.145.unknown")


def test_registers_say_the_gravest_of_what_is_known() -> None:
    rules = [
        BitRule(register=1, bits=(0, 23), becomes=IGNORED, sentence="ignore"),
        BitRule(register=3, bits=(1,), becomes=RESET, sentence="ecc"),
    ]
    assert read_registers({"registers": "0x800001, 0x0, 0x0"}, rules, ROW).judgement is IGNORED
    both = read_registers({"registers": "0x1, 0x0, 0x2"}, rules, ROW)
    assert (both.judgement, both.rule_id) == (RESET, "xid.74.bits")
    assert "register 3 bit 1" in both.sentence
    for unknown in ("0x1, 0x1", "", "0x0, 0x0", "?"):
        assert read_registers({"registers": unknown}, rules, ROW) is ROW
