"""All commands but `run` as one typer application; `run` is listed here for --help and dispatched before."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from phalanx_cli.commands.demo import demo
from phalanx_cli.commands.diagnose import EPILOG as DIAGNOSE_EPILOG
from phalanx_cli.commands.diagnose import diagnose
from phalanx_cli.commands.dlq import dlq
from phalanx_cli.commands.hardware import hardware
from phalanx_cli.commands.inject import EPILOG as INJECT_EPILOG
from phalanx_cli.commands.inject import inject
from phalanx_cli.commands.job import EPILOG as JOB_EPILOG
from phalanx_cli.commands.job import job
from phalanx_cli.commands.node import node, nodes
from phalanx_cli.commands.node_action import node_action
from phalanx_cli.commands.node_care import drain, quarantine, release
from phalanx_cli.commands.policy import policy
from phalanx_cli.commands.rules import rules
from phalanx_cli.commands.security_kubernetes import security
from phalanx_cli.commands.simulate import EPILOG as SIMULATE_EPILOG
from phalanx_cli.commands.simulate import simulate
from phalanx_cli.stack import developer

EPILOG = """\
Examples:

  phalanx run --nproc-per-node 4 train.py            train on this machine; everything it needs starts with it

  phalanx run --help                                 all flags; they are torchrun's, and a few more

  phalanx job llm                                    where job llm stands: nodes, ranks, step, checkpoint, restarts

  phalanx node NAME                                  every signal of a machine; `phalanx nodes` lists the machines

  phalanx diagnose logs/ dmesg.txt                   whose fault was it, and why: from logs alone, nothing else needed

  phalanx up && phalanx status                       a stack that stays: nats-server, Valkey, services

  NATS_URL=nats://127.0.0.1:4222 phalanx run ...     use a bus that runs already
"""

app = typer.Typer(
    name="phalanx",
    help="Keeps distributed training running: sees every fault, says whose it is, brings the gang back.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

app.command()(demo)
app.command(epilog=DIAGNOSE_EPILOG)(diagnose)
app.command()(dlq)
app.command(epilog=JOB_EPILOG)(job)
app.command(epilog=INJECT_EPILOG)(inject)
app.add_typer(hardware)
app.add_typer(policy)
app.add_typer(rules)
app.add_typer(security)
app.command(epilog=SIMULATE_EPILOG)(simulate)
app.command()(node)
app.command()(nodes)
app.command("node-action")(node_action)
app.command()(quarantine)
app.command()(drain)
app.command()(release)

DataDir = Annotated[Path, typer.Option(help="Folder of servers, states and logs.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"phalanx {version('phalanx-cli')}")
        raise typer.Exit


@app.callback()
def _root(
    shown: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def run(context: typer.Context) -> None:
    """Train: takes torchrun's flags (`phalanx run --help`)."""
    from phalanx_cli.commands.run import run as run_job

    raise typer.Exit(run_job(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def validate(context: typer.Context) -> None:
    """Gate before work: is this machine, or gang, fit for a job? (`phalanx validate --help`)."""
    from node_agent.adapters.validation_program import main as run_validation

    raise typer.Exit(run_validation(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def host(context: typer.Context) -> None:
    """Watch this machine: GPUs, kernel log, network, disks (`phalanx host --help`)."""
    from node_agent.host_main import main as watch

    raise typer.Exit(watch(context.args))


@app.command()
def up(
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
    cluster: Annotated[str, typer.Option(help="Name of the cluster on the bus.")] = "local",
) -> None:
    """Start nats-server, Valkey and the services, and leave them running."""
    raise typer.Exit(developer.up(data_dir, cluster=cluster))


@app.command()
def down(data_dir: DataDir = developer.DEFAULT_DATA_DIR) -> None:
    """Stop them in order."""
    raise typer.Exit(developer.down(data_dir))


@app.command()
def status(data_dir: DataDir = developer.DEFAULT_DATA_DIR) -> None:
    """Show each process: pid, address, health, age, log. Exit code 0 all well, 1 partly, 3 not running."""
    raise typer.Exit(developer.status(data_dir))
