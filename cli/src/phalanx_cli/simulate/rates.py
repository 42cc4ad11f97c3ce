"""Published rates of faults, and traces drawn from them.

Kinds and their weights are the interruptions of Llama 3 (arXiv 2407.21783, table 5: 419 unexpected ones in 54 days on
16,384 GPUs); rates of other clusters scale them.
"""

from __future__ import annotations

from fault_contracts.faults import Attribution
from phalanx_cli.simulate.draws import Draws
from phalanx_cli.simulate.faults import DAY_S, Fault, Kind, LightShares, Need, Symptom, drawn_fault

PER_1000_NODE_DAYS = {"llama3": 3.79, "rsc1": 6.50, "rsc2": 2.34, "ft-hsdp": 2.3, "infinitehbd": 4.18}
"""Llama 3 computed from its table; Meta RSC-1 and RSC-2 (HPCA'25); FT-HSDP (2602.00277); InfiniteHBD, its 400 nodes."""
MET_BY_JOB = 0.2
"""Of faults after a return, those that meet a job: the rest meet a spare, for who comes back waits longest. So a
published rate of interruptions holds so many of them (a test compares: 419 for Llama 3)."""
VARIATION = 1.76
"""Of the time between faults (InfiniteHBD): they come in bursts."""
GPU = (2.08, 2.98)
CABLE = (3.60, 1.76)
NIC = (1.95, 3.62)
FAN = (4.20, 1.69)
PSU = (5.19, 1.57)
UNKNOWN = (2.57, 2.27)
STRESS = (2.55, 1.88)
"""Mean and deviation of ln(hours of repair), fitted to InfiniteHBD by class."""


def _hardware(
    cause: str,
    weight: float,
    repair: tuple[float, float] = GPU,
    again: float = 0.26,
    *,
    symptom: Symptom = Symptom.DEVICE,
    light: bool = True,
) -> Kind:
    return Kind(
        cause=cause,
        attribution=Attribution.HARDWARE,
        symptom=symptom,
        weight=weight,
        repair=repair,
        again=again,
        light=light,
    )


def _other(cause: str, weight: float, attribution: Attribution, symptom: Symptom, least: Need) -> Kind:
    return Kind(cause=cause, attribution=attribution, symptom=symptom, weight=weight, light=False, least=least)


LLAMA3_KINDS = (
    _hardware("gpu_faulty", 148),
    _hardware("gpu_hbm", 72),
    _hardware("gpu_sram", 19),
    _hardware("network_switch_or_cable", 35, CABLE, 0.40),
    _hardware("network_interface", 7, NIC, 0.50),
    _hardware("gpu_thermal_or_sensor", 6, FAN, 0.31, light=False),
    _hardware("silent_data_corruption", 6, symptom=Symptom.SILENT),
    _hardware("ssd", 3, UNKNOWN, 0.31, light=False),
    _hardware("power_supply", 3, PSU, 0.31, light=False),
    _hardware("chassis_board_cpu_or_memory", 8, UNKNOWN, 0.31, symptom=Symptom.LOST, light=False),
    Kind(cause="gpu_system_processor", attribution=Attribution.DRIVER, symptom=Symptom.HANG, weight=17, repair=GPU),
    Kind(cause="nccl_watchdog", attribution=Attribution.UNKNOWN, symptom=Symptom.HANG, weight=7),
    _other("host_maintenance", 32, Attribution.PLATFORM, Symptom.LOST, Need.REBOOT_NODE),
    _other("dependency", 2, Attribution.PLATFORM, Symptom.CRASH, Need.RESTART),
    _other("software_bug", 54, Attribution.USER, Symptom.CRASH, Need.RESTART),
)


def rate_trace(
    per_1000_node_days: float,
    *,
    machines: int,
    days: float,
    seed: int,
    shares: LightShares,
    kinds: tuple[Kind, ...] = LLAMA3_KINDS,
    variation: float = VARIATION,
) -> list[Fault]:
    """Faults of a fleet, oldest first; each brings those that follow from it.

    The rate counts those of them that a job meets, as the published ones do; so fewer begin a chain.

    Raises:
        ValueError: something is not above zero.
    """
    if per_1000_node_days <= 0 or machines < 1 or days <= 0:
        raise ValueError(f"rate {per_1000_node_days:g}, {machines} machines, {days:g} days: each must be above zero")
    draws = Draws(f"trace {seed}")
    weights = [kind.weight * (1 - _chained(kind)) for kind in kinds]
    heads = sum(weights) / sum(kind.weight for kind in kinds)
    mean_s = DAY_S * 1_000 / (per_1000_node_days * heads * machines)
    found: list[Fault] = []
    at_s = draws.gap(mean_s, variation)
    while at_s < days * DAY_S:
        kind = kinds[draws.pick(weights)]
        found.append(drawn_fault(kind, draws.below(machines), at_s, shares, draws))
        at_s += draws.gap(mean_s, variation)
    return found


def _chained(kind: Kind) -> float:
    return kind.defect_share * MET_BY_JOB if kind.of_node else 0.0
