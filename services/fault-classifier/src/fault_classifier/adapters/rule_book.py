"""The rules in force: the shipped ones and a site's folders over them, read again when a file changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fault_attribution.cause_rule import CauseBook
from fault_attribution.loading.folder_look import look_at
from fault_attribution.loading.rule_files import RuleSet, load_rules
from fault_attribution.matching.signature_matcher import SignatureMatcher, SignatureRefused
from service_kit.logging import get_logger
from service_kit.ports import Clock
from service_kit.yaml_fields import PolicyRefused

LOOK_S = 5.0
"""Between two looks at the folders; a person who saves a file sees it taken up within that time."""

_log = get_logger(__name__)


class RuleBook:
    """Rules that can change while the service runs. A file that cannot be used leaves the old rules in force."""

    def __init__(self, overlays: tuple[Path, ...], rules: RuleSet) -> None:
        self._overlays = overlays
        self._rules = rules
        self._matcher: SignatureMatcher | None = None
        self._seen = look_at(self._overlays)

    @property
    def causes(self) -> CauseBook:
        """Cause rules in force."""
        return self._rules.causes

    @property
    def matcher(self) -> SignatureMatcher | None:
        """Signatures in force, ready to run; None for the first second or two."""
        return self._matcher

    async def follow(self, clock: Clock) -> None:
        """Make the signatures ready, beside the first verdicts; then look for changes until cancelled.

        Shipped rules never change under a running service.
        """
        self._matcher = await asyncio.to_thread(SignatureMatcher, self._rules.signatures)
        while self._overlays:
            await clock.sleep(LOOK_S)
            await self.reload()

    async def reload(self) -> bool:
        """Take up what changed; says whether other rules are in force now."""
        seen = look_at(self._overlays)
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            rules, matcher = await asyncio.to_thread(self._load)
        except (PolicyRefused, SignatureRefused) as error:
            _log.error("rules_refused", reason=str(error))
            return False
        self._rules, self._matcher = rules, matcher
        _log.info("rules_taken_up", signatures=len(rules.signatures), causes=len(rules.causes.rules))
        return True

    def _load(self) -> tuple[RuleSet, SignatureMatcher]:
        rules = load_rules(self._overlays)
        return rules, SignatureMatcher(rules.signatures)
