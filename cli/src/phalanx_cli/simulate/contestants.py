"""The policies that are compared: what each sees, whom it can name, what it does, and where that is known from.

What a policy decides about restarts is a RecoveryPolicy, answered by the planner's own code, for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fault_contracts.cluster_policy import ClusterPolicy, LadderPolicy
from fault_contracts.policy import RecoveryPolicy
from phalanx_cli.simulate.costs import SILENT_S, Costs
from phalanx_cli.simulate.faults import Symptom

NCCL_S = 600.0
SDC_RECALL = 0.70
"""Share of silently corrupting devices that a vendor's diagnosis finds (ByteRobust, section 9)."""
_NOBODY = {Symptom.CRASH: 0.0, Symptom.DEVICE: 0.0, Symptom.HANG: 0.0, Symptom.SILENT: 0.0, Symptom.LOST: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One policy.

    Attributes:
        detect_s: from the fault until the gang is stopped, by symptom.
        named: share of faults whose node it names without a person, by symptom.
        in_place_s: all processes anew on the same nodes; level_job_s: the whole job anew.
        swap_s: with another node in the place of one that is taken out.
        blind_max: restarts on a broken node until a person looks; manual_s: what that takes.
        care: what is done about broken nodes, by the planner's own code; None: each is sent to repair.
        gate_rounds: without `care`: clean rounds of validation that a node needs before it is used again.
        ledger: strikes of a device are counted by health-ingest's ledger; a listed one is never used again.
        sources: where the numbers come from.
    """

    name: str
    recovery: RecoveryPolicy
    detect_s: dict[Symptom, float]
    named: dict[Symptom, float]
    in_place_s: float
    level_job_s: float
    swap_s: float
    care: ClusterPolicy | None = None
    blind_max: int = 3
    manual_s: float = 1_800.0
    gate_rounds: int = 0
    ledger: bool = False
    sources: tuple[str, ...] = ()


def default_recovery() -> RecoveryPolicy:
    """Ours unless a file says otherwise: as `examples/policy.yaml`, without what a simulation has no use for."""
    return RecoveryPolicy(
        restarts_max=20,
        window_s=21_600.0,
        process_restarts_before_job=3,
        job_restarts_max=8,
        quiet_s=1_800.0,
        confirming_retries=1,
    )


def default_care() -> ClusterPolicy:
    """Ours unless a file says otherwise: every default of a cluster that has a ladder."""
    return ClusterPolicy(ladder=LadderPolicy())


def contestants(
    costs: Costs,
    *,
    recovery: RecoveryPolicy | None = None,
    care: ClusterPolicy | None = None,
    verdicts: float = 0.95,
) -> tuple[Contestant, ...]:
    """All of them, ours last. `verdicts`: share of faults without device evidence in which ours names the node."""
    ours = _ours(costs, recovery or default_recovery(), care or default_care(), verdicts)
    return (
        _restart_all(costs, NCCL_S, "restart-all-600"),
        _restart_all(costs, 1_800.0, "restart-all-1800"),
        _requeue(costs),
        _hyperpod(costs),
        replace(
            ours,
            name="replace-always",
            care=None,
            ledger=False,
            sources=("phalanx's detection, verdicts and restarts; every node that is named goes to repair, no gate",),
        ),
        ours,
    )


def _times(crash: float, device: float, hang: float, lost: float) -> dict[Symptom, float]:
    return {
        Symptom.CRASH: crash,
        Symptom.DEVICE: device,
        Symptom.HANG: hang,
        Symptom.LOST: lost,
        Symptom.SILENT: SILENT_S,
    }


def _unlimited() -> RecoveryPolicy:
    return RecoveryPolicy(restarts_max=100_000, window_s=3_600.0, confirming_retries=1)


def _restart_all(costs: Costs, hang_s: float, name: str) -> Contestant:
    restart_s = costs.processes_s + costs.measured.torchrun_over_floor_s
    return Contestant(
        name=name,
        recovery=_unlimited(),
        detect_s=_times(hang_s, hang_s, hang_s, hang_s),
        named=_NOBODY,
        in_place_s=restart_s,
        level_job_s=restart_s,
        swap_s=costs.requeue_s,
        sources=(
            "survivors wait for the collective's time-out: NCCL 600 s, gloo 1,800 s (torch's defaults)",
            "restart: ByteRobust's hot update, and what torchrun took over the floor in bench-recovery",
            "nobody is named: after 3 restarts on a broken node a person looks for it, 30 min (Minder: more than that)",
        ),
    )


def _requeue(costs: Costs) -> Contestant:
    return Contestant(
        name="requeue",
        recovery=_unlimited(),
        detect_s=_times(30.0, NCCL_S, NCCL_S, 60.0),
        named={**_NOBODY, Symptom.DEVICE: SDC_RECALL},
        in_place_s=costs.requeue_s,
        level_job_s=costs.requeue_s,
        swap_s=costs.requeue_s,
        sources=(
            "ByteRobust's requeue; without inspection a device fault is noticed after about 10 min (its table 3)",
            "a scheduler's health check between jobs is assumed to find 70 % of broken devices",
        ),
    )


def _hyperpod(costs: Costs) -> Contestant:
    return Contestant(
        name="hyperpod-like",
        recovery=RecoveryPolicy(
            restarts_max=100,
            window_s=21_600.0,
            process_restarts_before_job=3,
            job_restarts_max=10,
            confirming_retries=1,
        ),
        detect_s=_times(5.0, 5.0, NCCL_S, 5.0),
        named={**_NOBODY, Symptom.DEVICE: 1.0},
        in_place_s=costs.processes_s,
        level_job_s=110.3,
        swap_s=110.3,
        gate_rounds=1,
        sources=(
            "node fault 94.3, 102.6 and 149.0 s in all, of which detection 5 s (published demonstrations)",
            "no log rule is shipped, so a hang ends by NCCL's time-out; process restarts first, then the job",
            "instances with a bad device are replaced; one round of deep health checks before use",
        ),
    )


def _ours(costs: Costs, recovery: RecoveryPolicy, care: ClusterPolicy, verdicts: float) -> Contestant:
    own_s = costs.measured.phalanx_over_floor_s
    return Contestant(
        name="phalanx",
        recovery=recovery,
        detect_s=_times(0.5, 3.0, 15.0, 2.0),
        named={
            Symptom.CRASH: verdicts,
            Symptom.DEVICE: 1.0,
            Symptom.HANG: verdicts,
            Symptom.LOST: 1.0,
            Symptom.SILENT: SDC_RECALL,
        },
        in_place_s=costs.processes_s + own_s,
        level_job_s=costs.processes_s + own_s,
        swap_s=costs.standby_s + own_s,
        care=care,
        ledger=True,
        sources=(
            f"bench-recovery over its floor {own_s:.3f} s ({costs.measured.source}), on top of ByteRobust's floors",
            "a dead process by pidfd; a lost machine after 1.5 s of grace (ADR 0010); --hang-idle 15 s",
            "device: at once by kernel log or NVML event, one in ten by a sweep of 30 s, so 3 s on average",
            f"names {verdicts:.0%} of the nodes that have no device evidence (assumed)",
        ),
    )
