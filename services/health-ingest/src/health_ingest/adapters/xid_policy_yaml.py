"""Reads the policy for the driver's codes from YAML: xid.yaml, sxid.yaml, nvlink5.yaml of a folder.

The whole policy is good or the service does not start: half a policy would leave codes unknown that an operator has
rules for. Every field is checked, and what is wrong is told with file and line.
"""

from __future__ import annotations

from pathlib import Path

from fault_contracts.faults import Action, Attribution
from health_ingest.domain.ruling import Clears, Weight
from health_ingest.domain.seen import Distinct, Same
from health_ingest.domain.xid_rows import (
    BitRule,
    Companion,
    Detail,
    Judgement,
    Nvlink5Rule,
    Repeat,
    SxidClass,
    SxidRow,
    WishRow,
    WordMatch,
    XidPolicy,
    XidRow,
)
from service_kit.yaml_fields import Fields, PolicyRefused, read_lists, table_of

SHIPPED = Path(__file__).resolve().parent.parent / "policies"
CODE_MAX = 99_999
WITHIN_S_MAX = 30 * 86_400.0
RECORD_QUIET_S = 86_400.0
"""What is only recorded is forgotten after a day; nothing depends on it."""


def load_xid_policy(folder: Path = SHIPPED) -> XidPolicy:
    """The policy of a folder; the shipped one by default.

    Raises:
        PolicyRefused: a file is missing or wrong; the text says where and what.
    """
    xid = read_lists(folder / "xid.yaml", {"wishes", "xids"})
    sxids = read_lists(folder / "sxid.yaml", {"sxids"})["sxids"]
    nvlink5 = read_lists(folder / "nvlink5.yaml", {"rules"})["rules"]
    policy = XidPolicy(
        xids=table_of(xid["xids"], _xid_row, lambda row: row.code),
        sxids=table_of(sxids, _sxid_row, lambda row: row.code),
        nvlink5=tuple(table_of(nvlink5, _nvlink5_rule, lambda row: row.rule_id).values()),
        wishes=table_of(xid["wishes"], _wish_row, lambda row: row.slug),
    )
    for row in policy.xids.values():
        if row.cancels is not None and row.cancels not in policy.xids:
            raise PolicyRefused(f"{folder / 'xid.yaml'}: code {row.code} cancels {row.cancels}, which has no row")
    return policy


def _xid_row(fields: Fields) -> XidRow:
    code = fields.integer("code", 1, CODE_MAX)
    judgement = _judgement(fields)
    return XidRow(
        code=code,
        name=fields.text("name"),
        meaning=fields.text("meaning"),
        judgement=judgement,
        fault_class=fields.text("class", default=f"xid_{code}"),
        clears=(clears := _clears(fields, judgement)),
        window_s=fields.number("window_s", 1, WITHIN_S_MAX) if fields.has("window_s") else None,
        quiet_s=_quiet_s(fields, clears),
        cancels=fields.integer("cancels", 1, CODE_MAX) if fields.has("cancels") else None,
        repeats=tuple(map(_repeat, fields.rows("repeats"))),
        details=tuple(map(_detail, fields.rows("details"))),
        companions=tuple(map(_companion, fields.rows("companions"))),
        bits=tuple(map(_bit_rule, fields.rows("bits"))),
        source=fields.text("source"),
        why=fields.text("why", default=""),
    )


def _sxid_row(fields: Fields) -> SxidRow:
    judgement = _judgement(fields)
    return SxidRow(
        code=fields.integer("code", 1, CODE_MAX),
        name=fields.text("name"),
        kind=fields.choice("kind", SxidClass),
        judgement=judgement,
        clears=(clears := _clears(fields, judgement)),
        quiet_s=_quiet_s(fields, clears),
        source=fields.text("source"),
        why=fields.text("why", default=""),
    )


def _nvlink5_rule(fields: Fields) -> Nvlink5Rule:
    alternative = fields.has("alternative")
    return Nvlink5Rule(
        rule_id=fields.text("id"),
        code=fields.integer("code", 1, CODE_MAX),
        units=fields.texts("units"),
        v1=_match(fields, "v1"),
        v2=_match(fields, "v2"),
        statuses=fields.integers("statuses", 0, 0xFFFFFFFF),
        one_bit=fields.flag("one_bit"),
        judgement=_becomes(fields),
        alternative_v1=_match(fields, "alternative_v1") if alternative else None,
        alternative_v2=_match(fields, "alternative_v2") if alternative else None,
        alternative=_becomes(fields, "alternative") if alternative else None,
        sentence=fields.text("sentence"),
        source=fields.text("source"),
    )


def _wish_row(fields: Fields) -> WishRow:
    return WishRow(
        value=fields.integer("value", 0, 0xFFFF),
        slug=fields.text("slug"),
        driver_text=fields.text("driver_text"),
        judgement=_becomes(fields),
        sentence=fields.text("sentence"),
        source=fields.text("source"),
    )


def _repeat(fields: Fields) -> Repeat:
    repeat = Repeat(
        # SEEN_MAX would be the limit; a rule that needs ten is no rule.
        count=fields.integer("count", 2, 10),
        distinct=fields.choice("distinct", Distinct),
        within_s=fields.number("within_s", 1, WITHIN_S_MAX),
        same=fields.choice("same", Same),
        becomes=_becomes(fields),
        sentence=fields.text("sentence"),
    )
    fields.end()
    return repeat


def _detail(fields: Fields) -> Detail:
    detail = Detail(
        attribute=fields.text("attribute"),
        equals=fields.text("equals"),
        becomes=_becomes(fields),
        sentence=fields.text("sentence"),
    )
    fields.end()
    return detail


def _companion(fields: Fields) -> Companion:
    companion = Companion(
        check=fields.text("check"),
        within_s=fields.number("within_s", 1, WITHIN_S_MAX),
        becomes=_becomes(fields),
        sentence=fields.text("sentence"),
    )
    fields.end()
    return companion


def _bit_rule(fields: Fields) -> BitRule:
    rule = BitRule(
        register=fields.integer("register", 1, 7),
        bits=fields.integers("bits", 0, 31),
        becomes=_becomes(fields),
        sentence=fields.text("sentence"),
    )
    fields.end()
    return rule


def _becomes(fields: Fields, name: str = "becomes") -> Judgement:
    inner = fields.mapping(name)
    judgement = _judgement(inner)
    inner.end()
    return judgement


def _judgement(fields: Fields) -> Judgement:
    judgement = Judgement(
        weight=fields.choice("weight", Weight),
        origin=fields.choice("origin", Attribution),
        action=fields.choice("action", Action),
        sympathetic=fields.flag("sympathetic", default=False),
    )
    if judgement.sympathetic and judgement.weight is Weight.FAILURE:
        raise fields.refused("a consequence of something else (sympathetic) is never a failure")
    if judgement.weight is Weight.FAILURE and judgement.origin is Attribution.USER:
        raise fields.refused("a fault of the user's never costs a device: weight failure and origin user")
    return judgement


def _clears(fields: Fields, judgement: Judgement) -> Clears:
    default = Clears.QUIET if judgement.weight is Weight.RECORD else Clears.RESET
    return fields.choice("clears", Clears) if fields.has("clears") else default


def _quiet_s(fields: Fields, clears: Clears) -> float | None:
    if clears is not Clears.QUIET:
        return None
    return fields.number("quiet_s", 1, WITHIN_S_MAX) if fields.has("quiet_s") else RECORD_QUIET_S


def _match(fields: Fields, name: str) -> WordMatch:
    words = fields.integers(name, 0, 0xFFFFFFFF)
    if len(words) != 2 or words[1] & ~words[0]:
        raise fields.refused(f"{name} must be [mask, value] with no bit of the value outside the mask")
    return WordMatch(mask=words[0], value=words[1])
