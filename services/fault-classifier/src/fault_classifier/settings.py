"""Settings of fault-classifier, read once in main. A bad one stops the start with exit code 78."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AliasChoices, Field, PrivateAttr, model_validator

from fault_attribution.loading.rule_files import RuleSet, load_rules, shipped_folder
from fault_attribution.matching.signature_matcher import check_patterns
from fault_classifier.domain.classify import JudgePolicy
from fault_classifier.domain.fact_policy import FactPolicy
from service_kit.failpoints import Failpoints
from service_kit.settings import BusSettings
from service_kit.yaml_fields import PolicyRefused


class FaultClassifierSettings(BusSettings):
    """How long the judge waits, and what it takes for a repetition."""

    verdict_wait_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_VERDICT_WAIT", "verdict_wait_s"))] = (
        1.8
    )
    """[PHALANX_VERDICT_WAIT] Seconds that victims, or an incident without evidence, wait for a cause. A lost agent is
    known after 1.5 s, and the planner goes on without a verdict 2 s after the stop: between the two."""
    quiet_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_VERDICT_QUIET", "quiet_s"))] = 0.3
    """[PHALANX_VERDICT_QUIET] A provisional verdict becomes final when no evidence came for so many seconds, and after
    PHALANX_VERDICT_WAIT at the latest. Agents read the output of their ranks every 50 ms, and kernel logs arrive
    within 100 ms."""
    rules: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_RULES", "rules"))] = ""
    """[PHALANX_RULES] Folders of a site's own rules, separated by colons, over the shipped ones (docs/rules.md). Read
    again when they change; a bad one stops the start, and later is refused while the old rules stay."""
    startup_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_STARTUP", "startup_s"))] = 60.0
    """[PHALANX_STARTUP] A rank that ended within so many seconds, without a step and without a checkpoint, never got to
    train. Imports of large frameworks from a cold network file system take tens of seconds."""
    occurrences_min: Annotated[
        int, Field(validation_alias=AliasChoices("PHALANX_OCCURRENCES_MIN", "occurrences_min"))
    ] = 3
    """[PHALANX_OCCURRENCES_MIN] So many times the same exception without checkpoint progress is the user's, where the
    script reports no steps. Two may be chance."""
    history_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_EVIDENCE_HISTORY", "history_s"), ge=3_600)
    ] = 1_209_600.0
    """[PHALANX_EVIDENCE_HISTORY] Seconds that an untouched job's evidence is kept: 14 days, as the agents' stream."""
    rescan_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_RESCAN", "rescan_s"), ge=1, le=86_400)] = (
        300.0
    )
    """[PHALANX_RESCAN] Seconds between two looks at all records, for alarms of a replica that died."""
    failpoint: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_FAILPOINT", "failpoint"))] = ""
    """[PHALANX_FAILPOINT] For tests: `name:n` kills this process the n-th time it gets there. Empty: never."""

    _rule_set: RuleSet | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        self.policy()
        Failpoints(self.failpoint)
        self.rule_set()
        return self

    @property
    def overlays(self) -> tuple[Path, ...]:
        """A site's own folders of rules."""
        return tuple(Path(folder) for folder in self.rules.split(":") if folder)

    def rule_set(self) -> RuleSet:
        """The rules in force at the start, read once.

        Raises:
            ValueError: a file or a pattern cannot be used; the text says file, line and reason.
        """
        if self._rule_set is None:
            try:
                rules = load_rules(self.overlays)
            except PolicyRefused as error:
                raise ValueError(f"PHALANX_RULES: {error}") from error
            # The shipped patterns are tested where they are written; to compile all takes a second of the start.
            own = [each for each in rules.signatures if not each.file.startswith(str(shipped_folder()))]
            refused = next(check_patterns(own), "")
            if refused:
                raise ValueError(f"PHALANX_RULES: {refused}")
            self._rule_set = rules
        return self._rule_set

    def policy(self) -> JudgePolicy:
        """The limits as the domain sees them."""
        return JudgePolicy(
            verdict_wait_s=self.verdict_wait_s,
            quiet_s=self.quiet_s,
            facts=FactPolicy(startup_s=self.startup_s, occurrences_min=self.occurrences_min),
        )
