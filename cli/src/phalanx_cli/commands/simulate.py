"""`phalanx simulate`: what would this policy have given, on a trace of faults, beside the others?"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx_cli.simulate.chart import chart
from phalanx_cli.simulate.costs import SILENT_S, Costs, Measured, MeasurementRefused, floors, read_measured
from phalanx_cli.simulate.faults import LightShares
from phalanx_cli.simulate.hbd_trace import MACHINES, Recording, TraceRefused, read_recording
from phalanx_cli.simulate.outcome import SEEDS_MAX, summary
from phalanx_cli.simulate.rates import PER_1000_NODE_DAYS
from phalanx_cli.simulate.table import by_cause, compared, gates
from service_kit.yaml_fields import PolicyRefused

# What plays imports the domains of planner and ingest: not for every command that lists this one.
if TYPE_CHECKING:
    from fault_contracts.cluster_policy import ClusterPolicy
    from fault_contracts.policy import RecoveryPolicy
    from phalanx_cli.simulate.engine import Cluster
    from phalanx_cli.simulate.study import Study

BAD_INPUT = 2
GPUS_PER_NODE = 8
GATE_POWERS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
EPILOG = """\
Examples:

  phalanx simulate --compare                                   Llama 3's rates, 16,384 GPUs, 54 days, all policies

  phalanx simulate --compare --trace fault_trace.json          InfiniteHBD's recorded faults, 400 nodes

  phalanx simulate --policy policy.yaml --chart lost.svg       what your policy would have given

  phalanx simulate --gates                                     what if the gate before return finds less?
"""


class Form(StrEnum):
    """How the result is written."""

    TABLE = "table"
    JSON = "json"


def simulate(
    compare: Annotated[bool, typer.Option("--compare", help="All policies side by side; else ours alone.")] = False,
    policy: Annotated[Path | None, typer.Option(help="Recovery policy of ours, as `phalanx run --policy`.")] = None,
    cluster_policy: Annotated[
        Path | None, typer.Option(help="Cluster policy of ours, as the planner's; else its defaults, with a ladder.")
    ] = None,
    rates: Annotated[str, typer.Option(help=f"Published rate: {', '.join(PER_1000_NODE_DAYS)}.")] = "llama3",
    trace: Annotated[
        Path | None, typer.Option(help="Recorded faults to replay: fault_trace.json of InfiniteHBD.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help="GPUs that train; 16,384, or 90 % of a trace's nodes.", min=8)
    ] = None,
    days: Annotated[float, typer.Option(help="For how long; a trace has its own.", min=1, max=3_650)] = 54.0,
    spares: Annotated[
        int | None, typer.Option(help="Nodes that stand by; 5 %, or the rest of a trace's.", min=0)
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many runs.", min=1, max=SEEDS_MAX)] = 10,
    seed: Annotated[int, typer.Option(help="The first of the seeds.", min=0)] = 0,
    light: Annotated[
        float, typer.Option(help="Share of faults that restart, reset or reboot heal.", min=0, max=1)
    ] = 0.73,
    shortest: Annotated[bool, typer.Option("--shortest", help="Of a trace: light are the shortest repairs.")] = False,
    gate_power: Annotated[float, typer.Option(help="Share of defects that one round finds.", min=0, max=1)] = 0.7,
    gate_rounds: Annotated[int | None, typer.Option(help="Rounds before a return, ours.", min=0, max=10)] = None,
    verdicts: Annotated[
        float, typer.Option(help="Share of faults without device evidence named.", min=0, max=1)
    ] = 0.95,
    silent: Annotated[float, typer.Option(help="Seconds until wrong numbers are noticed, all.", min=0)] = SILENT_S,
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints, all.", min=1)] = 30.0,
    checkpoint_block: Annotated[float, typer.Option(help="Seconds that one holds training up, all.", min=0)] = 0.04,
    measured: Annotated[Path | None, typer.Option(help="recovery.json of `make bench-recovery`.")] = None,
    show_gates: Annotated[bool, typer.Option("--gates", help="Also: ours with gates of other power.")] = False,
    returns: Annotated[int, typer.Option(help="Also: hand so many nodes over, some listed.", min=0, max=1_000_000)] = 0,
    form: Annotated[Form, typer.Option("--format", help="Of what is printed.")] = Form.TABLE,
    chart_file: Annotated[Path | None, typer.Option("--chart", help="Write an SVG here.")] = None,
) -> None:
    """Play a trace of faults through recovery policies: training time kept, restarts, node-days, by cause."""
    from phalanx_cli.simulate.contestants import contestants
    from phalanx_cli.simulate.study import Study, described, play, with_silent

    try:
        costs, recording = _costs(gpus, trace, measured), read_recording(trace) if trace else None
        recovery, care = _policies(policy, cluster_policy, gate_rounds)
        cluster, costs = _sized(costs, recording, gpus, days, spares)
        costs = replace(costs, gate_power=gate_power, checkpoint_s=checkpoint, checkpoint_block_s=checkpoint_block)
        all_of_them = with_silent(contestants(costs, recovery=recovery, care=care, verdicts=verdicts), silent)
        chosen, shares = all_of_them if compare else all_of_them[-1:], LightShares().scaled(light)
        study = Study(
            cluster=cluster, costs=costs, contestants=chosen, seeds=seeds, first_seed=seed, shares=shares,
            per_1000_node_days=_rate(rates), recording=recording, shortest_first=shortest,
        )  # fmt: skip
        result = described(study, play(study))
    except (PolicyRefused, TraceRefused, MeasurementRefused, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(BAD_INPUT) from error
    extra = _extra(study, show_gates=show_gates, returns=returns, seed=seed)
    if chart_file is not None:
        chart_file.write_text(chart(result), encoding="utf-8")
    _print(result, extra, form)


def _policies(
    job: Path | None, cluster: Path | None, gate_rounds: int | None
) -> tuple[RecoveryPolicy | None, ClusterPolicy]:
    from phalanx_cli.simulate.contestants import default_care
    from phalanx_cli.simulate.study import with_rounds
    from service_kit.cluster_policy_file import read_cluster_policy
    from service_kit.recovery_policy_file import read_recovery_policy

    care = read_cluster_policy(cluster) if cluster else default_care()
    care = care if gate_rounds is None else with_rounds(care, gate_rounds)
    return read_recovery_policy(job) if job else None, care


def _costs(gpus: int | None, trace: Path | None, measured: Path | None) -> Costs:
    size = gpus or (MACHINES * 9 // 10 * GPUS_PER_NODE if trace else 16_384)
    processes_s, standby_s, requeue_s = floors(size)
    own = read_measured(measured) if measured else Measured()
    return Costs(processes_s=processes_s, standby_s=standby_s, requeue_s=requeue_s, measured=own)


def _sized(
    costs: Costs, recording: Recording | None, gpus: int | None, days: float, spares: int | None
) -> tuple[Cluster, Costs]:
    from phalanx_cli.simulate.engine import Cluster

    if recording is None:
        nodes = math.ceil((gpus or 16_384) / GPUS_PER_NODE)
        return Cluster(nodes=nodes, spares=nodes // 20 if spares is None else spares, days=days), costs
    nodes = math.ceil(gpus / GPUS_PER_NODE) if gpus else MACHINES * 9 // 10
    rest = max(0, MACHINES - nodes) if spares is None else spares
    return Cluster(nodes=nodes, spares=rest, days=recording.days), costs


def _rate(name: str) -> float:
    if name not in PER_1000_NODE_DAYS:
        raise ValueError(f"no rate is called {name}; there are {', '.join(PER_1000_NODE_DAYS)}")
    return PER_1000_NODE_DAYS[name]


def _extra(study: Study, *, show_gates: bool, returns: int, seed: int) -> dict[str, Any]:
    from phalanx_cli.simulate.returning import hand_over
    from phalanx_cli.simulate.study import play, with_gate

    extra: dict[str, Any] = {}
    if show_gates:
        ours = replace(study, contestants=study.contestants[-1:])
        extra["gates"] = [
            {"power": power, "result": summary(play(with_gate(ours, power))["phalanx"])} for power in GATE_POWERS
        ]
    if returns:
        extra["returns"] = asdict(hand_over(returns, seed))
    return extra


def _print(result: dict[str, Any], extra: dict[str, Any], form: Form) -> None:
    if form is Form.JSON:
        typer.echo(json.dumps({**result, **extra}, indent=1))
        return
    typer.echo(compared(result))
    typer.echo("\n" + by_cause(result, "phalanx"))
    if "gates" in extra:
        typer.echo("\n" + gates([(row["power"], row["result"]) for row in extra["gates"]]))
    if "returns" in extra:
        said = extra["returns"]
        typer.echo(
            f"\n{said['returns']} nodes handed over, {said['listed_brought']} with a listed device; "
            f"refused {said['refused']}, listed devices let to work: {said['readmitted']}"
        )
    typer.echo("\nAssumptions and their sources: docs/simulate.md. No figure here was measured on GPUs.")
