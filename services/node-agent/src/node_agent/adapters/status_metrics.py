"""/metrics of the agent: its own gauges beside those of the bus. Labels are local ranks and phases; they are few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fault_contracts.agent import AgentPhase
from node_agent.application.describe_agent import AgentDescriber
from node_agent.application.status_views import RankState, RankView, StatusView

CONTENT_TYPE = CONTENT_TYPE_LATEST


class AgentMetrics:
    """A collector that asks when it is asked."""

    def __init__(self, describer: AgentDescriber) -> None:
        self._describer = describer
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        """Prometheus text: the process and the bus, then the agent and its ranks."""
        return generate_latest(REGISTRY) + generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client.registry.Collector."""
        status = self._describer.status()
        ranks = self._describer.ranks()
        yield from _of_agent(status)
        yield _by_label("phalanx_agent_phase", "1 for the phase the agent is in", "phase", _phases(status))
        yield _by_label("phalanx_agent_ranks", "Ranks of this node by state", "state", _states(ranks))
        steps = [(str(r.local_rank), float(r.step)) for r in ranks if r.step is not None]
        yield _by_label("phalanx_rank_step", "Last reported step of a rank", "local_rank", steps)
        ages = [(str(r.local_rank), r.last_step_age_s) for r in ranks if r.last_step_age_s is not None]
        yield _by_label(
            "phalanx_rank_last_step_age_seconds", "Seconds since a rank reported a step", "local_rank", ages
        )


def _of_agent(status: StatusView) -> Iterator[Metric]:
    for name, words, value in (
        ("phalanx_agent_topology_version", "Newest generation this agent has seen", status.topology_version),
        ("phalanx_agent_uptime_seconds", "Seconds since the agent started", status.uptime_s),
        ("phalanx_agent_in_process", "1 when a fault restarts this node's ranks in place", int(status.in_process)),
        ("phalanx_agent_restart_count", "Restarts before the present generation", status.restart_count),
        ("phalanx_agent_step", "Smallest last step of all local ranks", status.step),
        (
            "phalanx_agent_planner_silence_seconds",
            "Seconds since the planner said something",
            status.planner_seen_age_s,
        ),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, words, value=float(value))
    yield CounterMetricFamily(
        "phalanx_agent_bad_clients", "Refused on the worker socket", value=float(status.bad_clients)
    )


def _phases(status: StatusView) -> list[tuple[str, float]]:
    return [(phase.value, float(phase is status.phase)) for phase in AgentPhase]


def _states(ranks: tuple[RankView, ...]) -> list[tuple[str, float]]:
    counts = Counter(rank.state for rank in ranks)
    return [(state.value, float(counts[state])) for state in RankState]


def _by_label(name: str, words: str, label: str, samples: list[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for value, number in samples:
        family.add_metric([value], number)
    return family
