"""A signature: a pattern of a line, and the finding that it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fault_attribution.evidence_line import Source
from fault_attribution.finding import Role


class RuleState(StrEnum):
    """How far a rule is trusted."""

    ACTIVE = "active"
    OBSERVE = "observe"
    """It is evaluated and shown, and changes no verdict."""
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureExample:
    """A line that a signature must match, with what it must capture."""

    line: str
    captures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One pattern.

    Attributes:
        signature_id: `<family>.<slug>`; never reused.
        kind: of the finding; `{name}` in it is replaced by what that group caught, lower case.
        pattern: RE2, searched anywhere in the line. Named groups become captures; the groups `node`, `rank`, `device`
            and `pid` become the finding's own fields where they are not known otherwise.
        sources: lines of other sources are not looked at; empty: of all. A line of unknown source always is.
        sets: constant captures.
        meaning: one sentence for people.
        origin: where the format comes from (URL, file of the emitter).
        overrides: signatures that say less about a line that this one matches; their finding is left out.
        matches, misses: its tests.
        file, line: where it is written.
    """

    signature_id: str
    kind: str
    role: Role
    pattern: str
    sources: frozenset[Source] = frozenset()
    sets: Mapping[str, str] = field(default_factory=dict)
    meaning: str
    origin: str
    overrides: frozenset[str] = frozenset()
    state: RuleState = RuleState.ACTIVE
    matches: tuple[SignatureExample, ...] = ()
    misses: tuple[str, ...] = ()
    file: str = ""
    line: int = 0
