"""Faults as they truly are: what broke, what it shows, what would heal it, and what follows when the node returns.

A policy sees only what a fault shows. All its draws are made in advance, so that every policy meets the same faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fault_contracts.faults import Attribution
from phalanx_cli.simulate.draws import Draws

HOUR_S = 3_600.0
DAY_S = 86_400.0
WATCHED_S = 7 * DAY_S
"""A node that fails again within this time of its return was not well."""
BASE_SHARE = 0.029
"""Of returns followed by a fault within 7 days by chance alone (InfiniteHBD)."""
REPAIR_S_MAX = 349 * DAY_S
"""The span of the trace that the repair times were fitted to."""
CHAIN_MAX = 12
DRAWS_EACH = 16


class Need(StrEnum):
    """The lightest thing that heals a fault, in rising order."""

    RESTART = "restart"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"


class Symptom(StrEnum):
    """How a fault shows."""

    CRASH = "crash"
    """A process ends."""
    LOST = "lost"
    """The machine is gone; whoever looks sees which."""
    DEVICE = "device"
    """A device or its link says so itself."""
    HANG = "hang"
    """Nothing ends; no step follows."""
    SILENT = "silent"
    """Wrong numbers, and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault.

    Attributes:
        weight: how often, beside the others.
        repair: mean and deviation of ln(hours) until a node that was sent to repair is back.
        light: whether a restart, a reset or a reboot may heal it; parts that are worn out need hands.
        least: what it needs at least where it is not drawn.
        again: share of its repairs followed by a fault of the node within 7 days of return, chance included.
    """

    cause: str
    attribution: Attribution
    symptom: Symptom
    weight: float = 0.0
    repair: tuple[float, float] = (2.57, 2.27)
    light: bool = True
    least: Need = Need.REPLACE_NODE
    again: float = 0.31

    @property
    def defect_share(self) -> float:
        """Share of returns that are defective: what is left of `again` without chance."""
        return max(0.0, (self.again - BASE_SHARE) / (1 - BASE_SHARE))

    @property
    def of_node(self) -> bool:
        """The machine has it, not the program."""
        return self.attribution in (Attribution.HARDWARE, Attribution.DRIVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        at_s: when; of a fault that follows another, 0.
        repair_s: how long a node sent to repair for it is away.
        again_s: from a return, not healed, to the same fault.
        draws: numbers in [0, 1) for whatever chance decides: who names it, whether the gate finds it.
        follow: the fault that the defect left behind makes, `follow_gap_s` after the return.
    """

    kind: Kind
    machine: int
    at_s: float
    need: Need
    repair_s: float
    again_s: float
    draws: tuple[float, ...]
    follow: Fault | None = None
    follow_gap_s: float = 0.0

    @property
    def name(self) -> str:
        """Its cause."""
        return self.kind.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class LightShares:
    """Of the faults of light kinds, the share that each light rung heals.

    The sum, 0.73, is Unicron's share of errors that are transient (arXiv 2401.00134). How it splits up is our
    assumption; it moves minutes, not days.
    """

    restart: float = 0.40
    reset: float = 0.20
    reboot: float = 0.13

    def __post_init__(self) -> None:
        """Refuse shares that are none.

        Raises:
            ValueError: below 0, or above 1 together.
        """
        parts = (self.restart, self.reset, self.reboot)
        if min(parts) < 0 or sum(parts) > 1 + 1e-9:
            raise ValueError(f"shares of light fixes are {parts}; each must be 0 or more, together at most 1")

    @property
    def total(self) -> float:
        """What needs no hands."""
        return self.restart + self.reset + self.reboot

    def scaled(self, total: float) -> LightShares:
        """The same split with another sum."""
        part = total / self.total
        return LightShares(restart=self.restart * part, reset=self.reset * part, reboot=self.reboot * part)

    def need(self, drawn: float) -> Need:
        """What a fault needs, by a draw in [0, 1)."""
        if drawn < self.restart:
            return Need.RESTART
        if drawn < self.restart + self.reset:
            return Need.RESET_GPU
        return Need.REBOOT_NODE if drawn < self.total else Need.REPLACE_NODE


def need_of(kind: Kind, shares: LightShares, drawn: float) -> Need:
    """What heals a fault of a kind."""
    return shares.need(drawn) if kind.light else kind.least


def drawn_fault(kind: Kind, machine: int, at_s: float, shares: LightShares, draws: Draws, *, depth: int = 0) -> Fault:
    """A fault of a kind, with whatever follows from it."""
    need = need_of(kind, shares, draws.share())
    repair_s = min(draws.lognormal(*kind.repair) * HOUR_S, REPAIR_S_MAX)
    again_s = draws.share() * WATCHED_S
    own = draws.shares(DRAWS_EACH)
    follow, gap_s = None, 0.0
    if kind.of_node and draws.share() < kind.defect_share and depth < CHAIN_MAX:
        gap_s = draws.share() * WATCHED_S
        follow = drawn_fault(kind, machine, 0.0, shares, draws, depth=depth + 1)
    return Fault(
        kind=kind,
        machine=machine,
        at_s=at_s,
        need=need,
        repair_s=repair_s,
        again_s=again_s,
        draws=own,
        follow=follow,
        follow_gap_s=gap_s,
    )
