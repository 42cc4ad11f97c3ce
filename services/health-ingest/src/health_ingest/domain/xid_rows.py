"""Rows of the policy for the driver's error codes, as the YAML files have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fault_contracts.faults import Action, Attribution
from health_ingest.domain.ruling import Clears, Weight
from health_ingest.domain.seen import Distinct, Same


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is thought of a code: the part that a repeat, a register bit or a decoded word may change."""

    weight: Weight
    origin: Attribution
    action: Action
    sympathetic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Seen so often, a code means more than once."""

    count: int
    distinct: Distinct
    within_s: float
    same: Same
    becomes: Judgement
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What the line itself says changes the judgement."""

    attribute: str
    equals: str
    becomes: Judgement
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """Another check of the same device, seen shortly before, changes the judgement."""

    check: str
    within_s: float
    becomes: Judgement
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BitRule:
    """Bits of one register of Xid 74 (counted from 1), and what they mean."""

    register: int
    bits: tuple[int, ...]
    becomes: Judgement
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRow:
    """One Xid. `why` is there where others decide otherwise, and says why we do not."""

    code: int
    name: str
    meaning: str
    judgement: Judgement
    fault_class: str
    clears: Clears
    window_s: float | None = None
    quiet_s: float | None = None
    cancels: int | None = None
    """The code whose end this one tells."""
    repeats: tuple[Repeat, ...] = ()
    details: tuple[Detail, ...] = ()
    companions: tuple[Companion, ...] = ()
    bits: tuple[BitRule, ...] = ()
    source: str
    why: str = ""


class SxidClass(StrEnum):
    """What the fabric manager's guide says of a code of the NVSwitch driver."""

    FATAL = "fatal"
    ALWAYS_FATAL = "always_fatal"
    """The switch is gone until the machine is restarted."""
    NON_FATAL = "non_fatal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SxidRow:
    """One SXid."""

    code: int
    name: str
    kind: SxidClass
    judgement: Judgement
    clears: Clears
    quiet_s: float | None = None
    source: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordMatch:
    """A value under a mask."""

    mask: int
    value: int

    def matches(self, word: int) -> bool:
        """Whether the word has it."""
        return word & self.mask == self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvlink5Rule:
    """One row of the decoding table of Xids 144 to 150: intrInfo in both layouts, and errorStatus.

    Attributes:
        statuses: errorStatus must be one of these; empty: any.
        one_bit: errorStatus is a set of bits of which this rule names one; False: it is a number.
        alternative: matches where a narrower look at intrInfo changes what is to be done.
    """

    rule_id: str
    code: int
    units: tuple[str, ...]
    v1: WordMatch
    v2: WordMatch
    statuses: tuple[int, ...]
    one_bit: bool
    judgement: Judgement
    alternative_v1: WordMatch | None = None
    alternative_v2: WordMatch | None = None
    alternative: Judgement | None = None
    sentence: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WishRow:
    """One value of the driver's own wish: Xid 154, and NVML's field 230."""

    value: int
    slug: str
    driver_text: str
    judgement: Judgement
    sentence: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class XidPolicy:
    """Everything that is known of the driver's codes. What is in none of the tables is unknown, and evicts nothing."""

    xids: Mapping[int, XidRow] = field(default_factory=dict)
    sxids: Mapping[int, SxidRow] = field(default_factory=dict)
    nvlink5: tuple[Nvlink5Rule, ...] = ()
    wishes: Mapping[str, WishRow] = field(default_factory=dict)
    """By slug, e.g. node_reboot."""
