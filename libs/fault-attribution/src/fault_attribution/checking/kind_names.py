"""The kinds that anything can find: signatures, derivations, and what agents and the live judge see."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fault_attribution.derive.derived_kinds import DERIVED_KINDS
from fault_attribution.live_kinds import CONDITION_KINDS, LIVE_KINDS
from fault_attribution.matching.error_look import FRAME, LOOKS
from fault_attribution.signature import Signature

_PLACEHOLDER = re.compile(r"\{\w+\}")


class KindNames:
    """Answers whether a word of a term can ever hold."""

    def __init__(self, signatures: Iterable[Signature]) -> None:
        kinds = {each.kind for each in (*signatures, LOOKS, FRAME)}
        patterns = {_PLACEHOLDER.sub("*", kind) for kind in kinds} | CONDITION_KINDS
        plain = {each for each in patterns if "*" not in each}
        self.names = frozenset(plain | DERIVED_KINDS.keys() | LIVE_KINDS.keys())
        self._open = [re.compile(re.escape(each).replace(r"\*", ".+")) for each in sorted(patterns) if "*" in each]
        self._open_beginnings = [each.partition("*")[0] for each in sorted(patterns) if "*" in each]

    def knows(self, kind: str) -> bool:
        """Whether something can be of this kind; it may end in `*`."""
        if kind.endswith("*"):
            begin = kind[:-1]
            return any(name.startswith(begin) for name in self.names) or any(
                begin.startswith(each) or each.startswith(begin) for each in self._open_beginnings
            )
        return kind in self.names or any(each.fullmatch(kind) for each in self._open)

    def near(self, kind: str) -> tuple[str, ...]:
        """Known names that a misspelt one may mean."""
        words = set(kind.split("_"))
        scored = sorted((-len(words & set(name.split("_"))), name) for name in self.names)
        return tuple(name for shared, name in scored[:3] if shared)
