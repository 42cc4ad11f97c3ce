"""What is simulated, as a value: jobs, services, the network's troubles, and faults with their times."""

from __future__ import annotations

from dataclasses import dataclass, field

from service_kit.testing.memory_broker import Trouble
from service_kit.testing.process_life import StoreTrouble


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One job: its agents are `name-n0` ... `name-n<nodes + spares - 1>`.

    Attributes:
        restarts, window_s: the job's own budget.
        steps: the job is done after so many; None: it trains for ever.
        save_every: a checkpoint after so many steps.
        in_place: 1: the script is re-executable, its ranks restart in place.
        policy: JSON of a RecoveryPolicy; empty: none.
    """

    name: str
    nodes: int = 2
    spares: int = 0
    nproc: int = 2
    restarts: int = 100
    window_s: float = 3_600.0
    steps: int | None = None
    save_every: int = 4
    in_place: int = 0
    policy: str = ""

    @property
    def agents(self) -> tuple[str, ...]:
        """Their node_ids."""
        return tuple(f"{self.name}-n{place}" for place in range(self.nodes + self.spares))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One line `at 12s <verb> <target> ...`; which fields a verb has stands in `sim_story.VERBS`."""

    at_s: float
    verb: str
    target: str = ""
    rank: int = 0
    number: float = 0.0
    word: str = ""
    for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One line `expect <job> <what> <words>`, looked at when everything has come to rest."""

    job: str
    what: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All of it. `seed` is for what the lines leave open: durations, the network's dice."""

    seed: int = 0
    cluster: str = ""
    """JSON of a ClusterPolicy; empty: nobody cares for nodes."""
    jobs: tuple[JobPlan, ...] = ()
    planners: int = 1
    network: Trouble = field(default_factory=Trouble)
    store: StoreTrouble = field(default_factory=StoreTrouble)
    faults: tuple[Fault, ...] = ()
    expectations: tuple[Expectation, ...] = ()
