"""`phalanx policy`: is a recovery policy sound, and what would it do about this fault?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from fault_contracts.agent import JobSpec
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import RecoveryPolicy
from fault_contracts.recovery import JobOutcome
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.budget import budget_at
from recovery_planner.domain.culprit import level_of
from recovery_planner.domain.escalation import Answer, Fault, answer
from recovery_planner.domain.past_restarts import PastRestart, remembered
from service_kit.recovery_policy_file import read_recovery_policy
from service_kit.yaml_fields import PolicyRefused

BAD_FILE = 2
TIMES_MAX = 200

policy = typer.Typer(
    name="policy",
    help="Check a job's recovery policy, and see what it would do.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PolicyFile = Annotated[Path, typer.Argument(help="A policy in YAML, as `phalanx run --policy` takes it.")]

_USUAL_ACTION = {
    Attribution.USER: Action.DONT_RETRY_NOTIFY_USER,
    Attribution.HARDWARE: Action.REPLACE_NODE,
    Attribution.DRIVER: Action.REBOOT_NODE,
    Attribution.PLATFORM: Action.RESTART_PROCESS,
    Attribution.UNKNOWN: Action.RESTART_PROCESS,
}


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
) -> None:
    """Play the same fault again and again, and show what would be done each time, and why."""
    found = _read(file)
    wanted = action or _USUAL_ACTION[attribution]
    level = level_of(wanted)
    least = RecoveryLevel.JOB if level is RecoveryLevel.JOB else RecoveryLevel.IN_PROCESS
    fault = Fault(attribution=attribution, cause=cause, action=wanted, level=least)
    spec = JobSpec(nnodes=1, nproc_per_node=1, restarts_max=max_restarts, window_s=restart_window, policy=found)
    typer.echo(f"{attribution}{', ' + cause if cause else ''}; the verdict recommends {wanted}")
    now = datetime(2000, 1, 1, tzinfo=UTC)
    past: tuple[PastRestart, ...] = ()
    restarts: tuple[datetime, ...] = ()
    for number in range(1, times + 1):
        said, restarts = _with_budget(answer(fault, spec, past, now=now), spec, restarts, now)
        after = f"after {every_s * (number - 1):g} s"
        if said.outcome is not None:
            typer.echo(f"{number:>3}. {after}: the job ends ({said.outcome}): {said.sentence}")
            return
        wait = f" after a wait of {said.wait_s:g} s" if said.wait_s else ""
        typer.echo(f"{number:>3}. {after}: restart, level {_named(said.level)}{wait}; {_why(said)}")
        past = remembered(past, PastRestart(at=now, level=said.level, attribution=attribution, cause=cause))
        now += timedelta(seconds=every_s)


def _with_budget(
    said: Answer, spec: JobSpec, restarts: tuple[datetime, ...], now: datetime
) -> tuple[Answer, tuple[datetime, ...]]:
    """The job's budget over all causes is asked as the planner asks it: after the policy's own word."""
    budget = budget_at(spec, restarts, now)
    if said.outcome is not None:
        return said, budget.restarts
    if budget.left < 1:
        ended = Answer(level=RecoveryLevel.FAILED, outcome=JobOutcome.FAILED_BUDGET, sentence=budget.sentence)
        return ended, budget.restarts
    return said, (*budget.restarts, now)


def _named(level: RecoveryLevel) -> str:
    return "in_process where the script can, else process" if level is RecoveryLevel.IN_PROCESS else str(level)


def _why(said: Answer) -> str:
    return "; ".join(f"{sentence} [{rule_id}]" for rule_id, sentence in said.notes) or "as the verdict says"


def _read(file: Path) -> RecoveryPolicy:
    try:
        return read_recovery_policy(file)
    except PolicyRefused as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(BAD_FILE) from error
