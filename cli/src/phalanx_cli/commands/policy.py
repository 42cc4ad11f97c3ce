"""`phalanx policy`: is a recovery policy sound, and what would it do about this fault?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fault_contracts.faults import Action, Attribution
from service_kit.yaml_fields import PolicyRefused

if TYPE_CHECKING:
    from fault_contracts.policy import RecoveryPolicy

BAD_FILE = 2
TIMES_MAX = 200
NNODES_MAX = 512

policy = typer.Typer(
    name="policy",
    help="Check a policy of a job or of a cluster, and see what it would do.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PolicyFile = Annotated[Path, typer.Argument(help="A policy in YAML, as `phalanx run --policy` takes it.")]


@policy.command(epilog="Example:\n\n  phalanx policy check policy.yaml")
def check(file: PolicyFile) -> None:
    """Say whether a file can be used; exit code 2 with file, line and reason when it cannot."""
    found = _read(file)
    said = found.model_dump(exclude_defaults=True, mode="json")
    typer.echo(f"{file}: sound; {len(found.causes)} rules by cause")
    for name, value in said.items():
        if name != "causes":
            typer.echo(f"  {name}: {value}")
    for number, rule in enumerate(found.causes, start=1):
        typer.echo(f"  rule {number}: {rule.model_dump(exclude_defaults=True, mode='json')}")


@policy.command(
    epilog="Example:\n\n  phalanx policy explain policy.yaml --attribution hardware --cause gpu_memory --every-s 600"
)
def explain(
    file: PolicyFile,
    attribution: Annotated[Attribution, typer.Option(help="Whose fault the verdict says it is.")] = Attribution.UNKNOWN,
    cause: Annotated[str, typer.Option(help="The verdict's cause, a slug of docs/causes.md.")] = "",
    action: Annotated[
        Action | None, typer.Option(help="What the verdict recommends; without it, what is usual for the attribution.")
    ] = None,
    times: Annotated[int, typer.Option(help="The same fault so often.", min=1, max=TIMES_MAX)] = 5,
    every_s: Annotated[float, typer.Option(help="Seconds between two of them.", min=0)] = 300.0,
    max_restarts: Annotated[int, typer.Option(help="The job's --max-restarts.", min=0)] = 3,
    restart_window: Annotated[float, typer.Option(help="The job's --restart-window in seconds.", min=1)] = 3_600.0,
    nnodes: Annotated[
        int | None,
        typer.Option(
            help="The job's --nnodes, to show how far it may shrink; 8 replicas where left out.", min=1, max=NNODES_MAX
        ),
    ] = None,
) -> None:
    """Play the same fault again and again, and show what would be done each time, and why."""
    from fault_contracts.agent import JobSpec
    from phalanx_cli.elastic_play import told_sizes
    from phalanx_cli.policy_play import played, usual_action

    found = _read(file)
    wanted = action or usual_action(attribution)
    # How large the gang may be plays no part in an answer; it is told apart, below.
    answers = found.model_copy(update={"elastic": None})
    spec = JobSpec(nnodes=1, nproc_per_node=1, restarts_max=max_restarts, window_s=restart_window, policy=answers)
    typer.echo(f"{attribution}{', ' + cause if cause else ''}; the verdict recommends {wanted}")
    for sentence in played((attribution, cause, wanted), spec, times=times, every_s=every_s):
        typer.echo(sentence)
    if found.elastic is None:
        return
    elastic = found.elastic
    usual = max(
        elastic.nnodes_allowed, default=max(8, -(-elastic.nnodes_min // elastic.replica_nodes)) * elastic.replica_nodes
    )
    try:
        for sentence in told_sizes(found, nnodes or usual):
            typer.echo(sentence)
    except ValueError as error:
        typer.echo(f"{file}: {error}", err=True)
        raise typer.Exit(BAD_FILE) from error


@policy.command(epilog="Example:\n\n  phalanx policy cluster cluster.yaml")
def cluster(
    file: Annotated[Path, typer.Argument(help="A cluster's policy in YAML, as the planner takes it (PHALANX_POLICY).")],
) -> None:
    """Say whether a cluster's policy (ladder, probation, breaker, pool) can be used; exit code 2 when it cannot."""
    from service_kit.cluster_policy_file import read_cluster_policy

    try:
        found = read_cluster_policy(file)
    except PolicyRefused as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(BAD_FILE) from error
    acts = "nothing is done to nodes by itself" if found.ladder is None else f"{len(found.ladder.rungs)} rungs"
    typer.echo(f"{file}: sound; {'a dry run: ' if found.dry_run else ''}{acts}")
    for name, value in found.model_dump(exclude_defaults=True, mode="json").items():
        typer.echo(f"  {name}: {value}")


def _read(file: Path) -> RecoveryPolicy:
    from service_kit.recovery_policy_file import read_recovery_policy

    try:
        return read_recovery_policy(file)
    except PolicyRefused as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(BAD_FILE) from error
