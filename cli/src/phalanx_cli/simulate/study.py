"""One study: which trace, which sizes, which policies, how many seeds. Everything a result depends on is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fault_contracts.cluster_policy import ClusterPolicy, LadderPolicy
from phalanx_cli.simulate.contestants import Contestant
from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.engine import Cluster, simulate
from phalanx_cli.simulate.faults import Fault, LightShares, Symptom
from phalanx_cli.simulate.hbd_trace import Recording, recorded_trace
from phalanx_cli.simulate.outcome import Outcome, summary
from phalanx_cli.simulate.rates import VARIATION, rate_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is played.

    Attributes:
        recording: its faults are replayed; None: they are drawn at `per_1000_node_days`.
        shortest_first: the recorded repairs that were shortest are those that a light fix would have done.
    """

    cluster: Cluster
    costs: Costs
    contestants: tuple[Contestant, ...]
    seeds: int
    first_seed: int = 0
    shares: LightShares = field(default_factory=LightShares)
    per_1000_node_days: float = 3.79
    variation: float = VARIATION
    recording: Recording | None = None
    shortest_first: bool = False

    def trace(self, seed: int) -> list[Fault]:
        """The faults of one seed, the same for every policy."""
        machines = self.cluster.nodes + self.cluster.spares
        if self.recording is not None:
            return recorded_trace(
                self.recording, machines=machines, seed=seed, shares=self.shares, shortest_first=self.shortest_first
            )
        return rate_trace(
            self.per_1000_node_days,
            machines=machines,
            days=self.cluster.days,
            seed=seed,
            shares=self.shares,
            variation=self.variation,
        )


def play(study: Study) -> dict[str, list[Outcome]]:
    """All policies on all seeds."""
    runs: dict[str, list[Outcome]] = {each.name: [] for each in study.contestants}
    for seed in range(study.first_seed, study.first_seed + study.seeds):
        trace = study.trace(seed)
        for each in study.contestants:
            runs[each.name].append(simulate(each, study.costs, study.cluster, trace))
    return runs


def with_gate(study: Study, power: float) -> Study:
    """The same with another gate: the power is that of all its rounds together."""
    changed = tuple(replace(each, care=with_rounds(each.care, 1)) if each.care else each for each in study.contestants)
    return replace(study, costs=replace(study.costs, gate_power=power), contestants=changed)


def with_rounds(care: ClusterPolicy, rounds: int) -> ClusterPolicy:
    """The same with so many clean rounds of the gate."""
    ladder = (care.ladder or LadderPolicy()).model_copy(update={"rounds_min": rounds})
    return care.model_copy(update={"ladder": ladder})


def with_silent(contestants: Sequence[Contestant], seconds: float) -> tuple[Contestant, ...]:
    """Silent corruption is noticed after so long, whatever the policy."""
    return tuple(replace(each, detect_s={**each.detect_s, Symptom.SILENT: seconds}) for each in contestants)


def described(study: Study, runs: dict[str, list[Outcome]]) -> dict[str, Any]:
    """The result as plain data: every assumption, every figure, no clock."""
    return {
        "cluster": asdict(study.cluster),
        "seeds": [study.first_seed, study.first_seed + study.seeds - 1],
        "trace": _trace(study),
        "light_shares": asdict(study.shares),
        "costs": asdict(study.costs),
        "policies": [
            {
                "name": each.name,
                "recovery": each.recovery.model_dump(mode="json", exclude_defaults=True),
                "detect_s": each.detect_s,
                "named": each.named,
                "in_place_s": each.in_place_s,
                "level_job_s": each.level_job_s,
                "swap_s": each.swap_s,
                "care": None if each.care is None else each.care.model_dump(mode="json"),
                "gate_rounds": each.gate_rounds,
                "manual_s": each.manual_s,
                "blind_max": each.blind_max,
                "sources": each.sources,
                "result": summary(runs[each.name]),
            }
            for each in study.contestants
        ],
    }


def _trace(study: Study) -> dict[str, Any]:
    if study.recording is None:
        return {"faults_per_1000_node_days": study.per_1000_node_days, "variation": study.variation}
    return {
        "recorded_faults": len(study.recording.faults),
        "days": study.recording.days,
        "node_days_down_as_recorded": study.recording.node_days_down,
        "light_are_the_shortest": study.shortest_first,
    }
