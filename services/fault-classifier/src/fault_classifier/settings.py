"""Settings of fault-classifier, read once in main. A bad one stops the start with exit code 78."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AliasChoices, Field, model_validator

from fault_classifier.domain.classify import JudgePolicy
from fault_classifier.domain.rule import RulePolicy
from service_kit.failpoints import Failpoints
from service_kit.settings import BusSettings


class FaultClassifierSettings(BusSettings):
    """How long the judge waits, and what it takes for a repetition."""

    verdict_wait_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_VERDICT_WAIT", "verdict_wait_s"))] = (
        1.8
    )
    """[PHALANX_VERDICT_WAIT] Seconds that victims, or an incident without evidence, wait for a cause. A lost agent is
    known after 1.5 s, and the planner goes on without a verdict 2 s after the stop: between the two."""
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

    @model_validator(mode="after")
    def _usable(self) -> Self:
        self.policy()
        Failpoints(self.failpoint)
        return self

    def policy(self) -> JudgePolicy:
        """The limits as the domain sees them."""
        return JudgePolicy(
            verdict_wait_s=self.verdict_wait_s,
            rule=RulePolicy(startup_s=self.startup_s, occurrences_min=self.occurrences_min),
        )
