"""Settings of health-ingest, read once in main. A bad one stops the start with exit code 78."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator

from health_ingest.domain.ledger import LedgerPolicy
from health_ingest.domain.peer_report import PeerPolicy
from health_ingest.domain.peer_window import WindowPolicy
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.straggler import StragglerPolicy
from service_kit.failpoints import Failpoints
from service_kit.settings import BusSettings
from service_kit.web.token import BearerToken, usable_token


class HealthIngestSettings(BusSettings):
    """How long problems are tolerated, and what ends them."""

    tolerance_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_TOLERANCE", "tolerance_s"))] = 60.0
    """[PHALANX_TOLERANCE] Seconds a problem may last before it is a failure: two sweeps of the collectors (30 s)."""
    tolerance_s_by_check: Annotated[
        dict[str, float],
        Field(validation_alias=AliasChoices("PHALANX_TOLERANCE_BY_CHECK", "tolerance_s_by_check"), max_length=1_000),
    ] = Field(default_factory=dict)
    """[PHALANX_TOLERANCE_BY_CHECK] JSON object of check → seconds, for checks that deserve another window."""
    good_samples_min: Annotated[
        int, Field(validation_alias=AliasChoices("PHALANX_GOOD_SAMPLES_MIN", "good_samples_min"))
    ] = 3
    """[PHALANX_GOOD_SAMPLES_MIN] Fresh good samples in a row that clear a condition. One is luck, three are a state."""
    sample_age_s_max: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_SAMPLE_AGE_MAX", "sample_age_s_max"))
    ] = 120.0
    """[PHALANX_SAMPLE_AGE_MAX] Seconds after which a good sample proves nothing any more (an outbox was held up)."""
    forget_after_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_FORGET_AFTER", "forget_after_s"))] = (
        3_600.0
    )
    """[PHALANX_FORGET_AFTER] Seconds that a cleared condition is kept, so that late copies of its signals are known.
    Above the bus's redelivery limit of 150 s."""
    node_silent_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_NODE_SILENT", "node_silent_s"))] = (
        1_500.0
    )
    """[PHALANX_NODE_SILENT] Seconds without a message after which a node is unknown: quiet on it clears nothing. Two
    and a half of the host agents' whole reports (600 s)."""
    check_policy: Annotated[
        Path | None, Field(validation_alias=AliasChoices("PHALANX_CHECK_POLICY", "check_policy"))
    ] = None
    """[PHALANX_CHECK_POLICY] YAML file of rows that stand before the built-in ones (policies/checks.yaml)."""
    rescan_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_RESCAN", "rescan_s"), ge=1, le=86_400)] = (
        300.0
    )
    """[PHALANX_RESCAN] Seconds between two looks at all records, for alarms of a replica that died."""
    straggler_ratio: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_STRAGGLER_RATIO", "straggler_ratio"))
    ] = 1.10
    """[PHALANX_STRAGGLER_RATIO] A rank's step time over its peers' from which a window is slow. At least 1.05."""
    straggler_windows: Annotated[
        int, Field(validation_alias=AliasChoices("PHALANX_STRAGGLER_WINDOWS", "straggler_windows"))
    ] = 5
    """[PHALANX_STRAGGLER_WINDOWS] Slow windows that make a straggler, and good ones in a row that end it."""
    peer_temperature_gap_c: Annotated[
        float,
        Field(validation_alias=AliasChoices("PHALANX_PEER_TEMPERATURE_GAP", "peer_temperature_gap_c"), ge=3, le=100),
    ] = 10.0
    """[PHALANX_PEER_TEMPERATURE_GAP] Degrees Celsius above its peers from which a GPU is a thermal outlier. GPUs that
    run 10 to 15 degrees hotter than their peers set the pace of their gang. Needs REDIS_URL, as all that follows."""
    peer_sweeps: Annotated[
        int, Field(validation_alias=AliasChoices("PHALANX_PEER_SWEEPS", "peer_sweeps"), ge=1, le=50)
    ] = 3
    """[PHALANX_PEER_SWEEPS] Sweeps (30 s) out of the newest, two more than these, in which a device must stand out to
    be named; so many ordinary ones in a row end it."""
    signals_token: Annotated[
        SecretStr | None, Field(validation_alias=AliasChoices("PHALANX_SIGNALS_TOKEN", "signals_token"))
    ] = None
    """[PHALANX_SIGNALS_TOKEN] What other systems must bring to tell signals over HTTP (`Authorization: Bearer TOKEN`),
    at least 16 characters. Not set: the door is closed."""
    signals_host: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_SIGNALS_HOST", "signals_host"))] = (
        "127.0.0.1"
    )
    """[PHALANX_SIGNALS_HOST] Address of that door. Loopback: whoever wants it outside says so, behind TLS."""
    signals_port: Annotated[
        int, Field(validation_alias=AliasChoices("PHALANX_SIGNALS_PORT", "signals_port"), ge=0, le=65_535)
    ] = 9_099
    """[PHALANX_SIGNALS_PORT] Its port; 0: the system chooses, and the log tells."""
    signals_table: Annotated[
        Path | None, Field(validation_alias=AliasChoices("PHALANX_SIGNALS_TABLE", "signals_table"))
    ] = None
    """[PHALANX_SIGNALS_TABLE] YAML file with rows that come before the built-in table of other systems' words, and
    with the names that they have for our nodes."""
    strike_half_life_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_STRIKE_HALF_LIFE", "strike_half_life_s"))
    ] = 1_209_600.0
    """[PHALANX_STRIKE_HALF_LIFE] Seconds after which a strike against a device counts half: 14 days, our own policy."""
    strikes_max: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_STRIKES_MAX", "strikes_max"))] = 2.5
    """[PHALANX_STRIKES_MAX] A device whose decayed strikes reach it goes into quarantine: three within a week."""
    probation_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_PROBATION", "probation_s"))] = 604_800.0
    """[PHALANX_PROBATION] Seconds after a quarantine in which one strike is enough for the next: a week."""
    failpoint: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_FAILPOINT", "failpoint"))] = ""
    """[PHALANX_FAILPOINT] For tests: `name:n` kills this process the n-th time it gets there. Empty: never."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        self.policy()
        self.straggler_policy()
        self.ledger_policy()
        self.peer_policy()
        self.door_token()
        Failpoints(self.failpoint)
        return self

    def policy(self) -> ConditionPolicy:
        """The limits as the domain sees them."""
        return ConditionPolicy(
            tolerance_s=self.tolerance_s,
            tolerance_s_by_check=self.tolerance_s_by_check,
            good_samples_min=self.good_samples_min,
            sample_age_s_max=self.sample_age_s_max,
            forget_after_s=self.forget_after_s,
            node_silent_s=self.node_silent_s,
        )

    def ledger_policy(self) -> LedgerPolicy:
        """When a device is taken out of use."""
        return LedgerPolicy(
            half_life_s=self.strike_half_life_s, strikes_max=self.strikes_max, probation_s=self.probation_s
        )

    def straggler_policy(self) -> StragglerPolicy:
        """What counts as a slow rank."""
        windows = self.straggler_windows
        return StragglerPolicy(slow_ratio=self.straggler_ratio, windows=windows, windows_of=windows + 1)

    def peer_policy(self) -> PeerPolicy:
        """What counts as out of the ordinary among peers."""
        return PeerPolicy(temperature_gap_c_min=self.peer_temperature_gap_c)

    def peer_window(self) -> WindowPolicy:
        """How often, before it is said."""
        return WindowPolicy(sweeps=self.peer_sweeps, sweeps_of=self.peer_sweeps + 2)

    def door_token(self) -> BearerToken | None:
        """What opens the door for other systems' signals."""
        if self.signals_token is None or not self.signals_token.get_secret_value():
            return None
        return usable_token(self.signals_token.get_secret_value(), "PHALANX_SIGNALS_TOKEN")
