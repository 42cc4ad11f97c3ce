"""What a line's own words say beyond its code: the registers of Xid 74, the decoded words of Xids 144 to 150."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fault_contracts.faults import Action, Attribution
from health_ingest.domain.nvlink5_decode import Decoded, Layout, decode, layout_of
from health_ingest.domain.ruling import Weight
from health_ingest.domain.xid_rows import BitRule, Judgement, Nvlink5Rule

NVLINK5_CODES = range(144, 151)
_GRAVITY = {Weight.RECORD: 0, Weight.PROBLEM: 1, Weight.FAILURE: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """A judgement with the rule that gave it."""

    judgement: Judgement
    rule_id: str
    sentence: str
    source: str = ""


def read_registers(attributes: Mapping[str, str], rules: Sequence[BitRule], row: Opinion) -> Opinion:
    """The gravest of what the set bits say; the row's own opinion where a set bit has no rule.

    A line without registers leaves the row's opinion as it is: the driver called the fault fatal.
    """
    registers = _registers(attributes.get("registers", ""))
    set_bits = {(number, bit) for number, word in enumerate(registers, start=1) for bit in range(32) if word >> bit & 1}
    if not set_bits:
        return row
    told = {(rule.register, bit): rule for rule in rules for bit in rule.bits}
    if set_bits - told.keys():
        return row
    rule = max((told[bit] for bit in sorted(set_bits)), key=lambda each: _GRAVITY[each.becomes.weight])
    bits = ", ".join(f"register {number} bit {bit}" for number, bit in sorted(set_bits))
    return Opinion(judgement=rule.becomes, rule_id=f"{row.rule_id}.bits", sentence=f"{rule.sentence} ({bits})")


def read_nvlink5(code: int, attributes: Mapping[str, str], rules: Sequence[Nvlink5Rule], row: Opinion) -> Opinion:
    """What the decoded words say; where the driver's version is not known, both readings and no judgement."""
    if attributes.get("injected") == "1":
        sentence = f"Xid {code}: an error that somebody injected on purpose"
        return Opinion(judgement=_recorded(), rule_id=f"nvlink5.{code}.injected", sentence=sentence)
    layout = layout_of(attributes.get("driver_version", ""))
    if layout is None:
        readings = [(each, decode(code, attributes, rules, each)) for each in Layout]
        sentence = "the driver's version is not known, so the words are not decoded: " + "; ".join(
            f"{each} would be {'unknown' if found is None else _told(found)}" for each, found in readings
        )
        return Opinion(judgement=_recorded(), rule_id=f"nvlink5.{code}.no_version", sentence=sentence)
    found = decode(code, attributes, rules, layout)
    if found is None:
        words = (
            f"{attributes.get('unit', '?')} {attributes.get('intr_info', '?')} {attributes.get('error_status', '?')}"
        )
        sentence = f"Xid {code}: no row of the table has these words ({words}, layout {layout})"
        return Opinion(judgement=_recorded(), rule_id=f"nvlink5.{code}.unknown", sentence=sentence)
    return Opinion(
        judgement=found.judgement,
        rule_id=found.rule.rule_id,
        sentence=f"{row.sentence}; {_told(found)}",
        source=found.rule.source,
    )


def _told(found: Decoded) -> str:
    action = found.judgement.action.replace("_", " ")
    return f"{found.rule.units[0]} ({found.rule.rule_id}): {action}, {found.rule.sentence}"


def _recorded() -> Judgement:
    return Judgement(weight=Weight.RECORD, origin=Attribution.UNKNOWN, action=Action.WAIT_OR_IGNORE)


def _registers(text: str) -> list[int]:
    try:
        return [int(word, 16) for word in text.split(",")] if text else []
    except ValueError:
        return []
