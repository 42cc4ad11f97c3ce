"""`phalanx demo`: options in, exit code out."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx_cli.demo.listing import listing
from phalanx_cli.demo.options import BadOptions, Options, check, chosen_faults
from phalanx_cli.demo.scenario import Act, Fault

if TYPE_CHECKING:
    from phalanx_cli.demo.place import RunFolder
    from phalanx_cli.demo.report import Report
    from phalanx_cli.demo.screen import Screen

EXIT_HELD = 0
EXIT_NOT_HELD = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 69
"""The servers or the bus could not be started (EX_UNAVAILABLE of sysexits.h)."""
EXIT_CANNOT_CREATE = 73
"""The run's folder could not be written (EX_CANTCREAT)."""
EXIT_INTERRUPTED = 130

_DEFAULTS = Options()


def demo(
    steps: Annotated[int, typer.Option(help="Steps of the first job.")] = _DEFAULTS.steps,
    faults: Annotated[str, typer.Option(help=f"Which faults, separated by commas: {', '.join(Fault)}.")] = ",".join(
        _DEFAULTS.faults
    ),
    list_: Annotated[
        bool, typer.Option("--list", help="Say what can be injected and what has to come of it, and do nothing else.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of weights and batches.")] = _DEFAULTS.seed,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep checkpoints and server data, too; logs always stay.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; the story goes to stderr.")
    ] = False,
    data_dir: Annotated[Path, typer.Option(help="Folder for the runs; the last five stay.")] = _DEFAULTS.data_dir,
    machines: Annotated[
        Path | None,
        typer.Option(
            help="Run the agents on the machines that listen in this folder, with the servers and services of NATS_URL "
            "(docker-compose.yml, profile demo)."
        ),
    ] = _DEFAULTS.machines,
) -> None:
    """Train on two nodes and some in reserve, break it in many ways, and show what each recovery cost.

    Real processes: nats-server, Valkey, the services, `phalanx run` agents with two ranks each, a small transformer
    on real words. Five jobs: one whose ranks all get new processes after each fault, also when two come at once and
    when the planner itself is killed; one that restarts in place; one on nodes whose GPUs a fake driver library makes
    up (it needs a C compiler; without one this job is left out, and said so); one with a recovery policy: a poisoned
    checkpoint, and a node that is lost with none in reserve; one with a bug. The final weights are
    compared with those of a run without faults. Last, and without a job: a node whose GPU fails three times is
    replaced, by a planner with a ladder for all nodes.

    Exit code 0 only if everything held; 1 if not; 2 for options that make no sense; 69 if the servers do not start.
    """
    if list_:
        sys.stdout.write(listing())
        raise typer.Exit(EXIT_HELD)
    try:
        options = Options(
            steps=steps,
            faults=chosen_faults([name.strip() for name in faults.split(",") if name.strip()]),
            seed=seed,
            keep=keep,
            as_json=as_json,
            data_dir=data_dir,
            machines=machines,
        )
        check(options)
        options = _possible(options)
    except BadOptions as error:
        sys.stderr.write(f"phalanx demo: {error}\n")
        raise typer.Exit(EXIT_USAGE) from None
    raise typer.Exit(run_demo(options))


def _possible(options: Options) -> Options:
    """Without the faults that this machine cannot have; what was asked for by name is refused instead.

    Raises:
        BadOptions: a fault was asked for and there is no compiler.
    """
    from phalanx_cli.drill.fake_library import NoCompiler, find_compiler

    if options.machines is not None:
        return _possible_elsewhere(options)
    with_gpus = (*options.faults_of(Act.HARDWARE), *options.faults_of(Act.NODES))
    if not with_gpus:
        return options
    try:
        find_compiler()
    except NoCompiler as error:
        if options.faults != _DEFAULTS.faults:
            raise BadOptions(str(error)) from error
        sys.stderr.write(f"phalanx demo: left out, {', '.join(with_gpus)}: {error}\n")
        return replace(options, faults=tuple(fault for fault in options.faults if fault not in with_gpus))
    return options


def _possible_elsewhere(options: Options) -> Options:
    """Without what needs the demo's own services: a planner to kill, or with a ladder, and little patience.

    Raises:
        BadOptions: one of them was asked for.
    """
    here = (Fault.KILL_PLANNER, *options.faults_of(Act.HARDWARE), *options.faults_of(Act.NODES))
    left_out = [fault for fault in options.faults if fault in here]
    if not left_out:
        return options
    text = f"not with --machines: {', '.join(left_out)}"
    if options.faults != _DEFAULTS.faults:
        raise BadOptions(text)
    sys.stderr.write(f"phalanx demo: left out, {text}\n")
    return replace(options, faults=tuple(fault for fault in options.faults if fault not in here))


def run_demo(options: Options) -> int:
    """Play the demo and print its end; returns the exit code."""
    # Imported here: `phalanx --help` must not wait for the bus client.
    from phalanx_cli.demo.place import make_run_folder
    from phalanx_cli.demo.screen import Screen
    from phalanx_cli.demo.words import DataMissing, read_words
    from phalanx_cli.stack.errors import StackError
    from service_kit.errors import ServiceError

    try:
        read_words()
        folder = make_run_folder(options.data_dir)
    except DataMissing as error:
        return _fail(str(error), EXIT_UNAVAILABLE)
    except OSError as error:
        return _fail(f"the folder {options.data_dir} cannot be used: {error}", EXIT_CANNOT_CREATE)
    try:
        with Screen(to_stderr=options.as_json) as screen:
            report = _play(options, folder, screen)
    except KeyboardInterrupt:
        return _fail(f"interrupted; logs: {folder.logs}", EXIT_INTERRUPTED)
    except (StackError, ServiceError) as error:
        return _fail(f"{error}; logs: {folder.logs}", EXIT_UNAVAILABLE)
    finally:
        if not options.keep:
            folder.tidy()
    _print(report, screen, as_json=options.as_json)
    return EXIT_HELD if report.held else EXIT_NOT_HELD


def _play(options: Options, folder: RunFolder, screen: Screen) -> Report:
    from phalanx_cli.demo.play import play
    from service_kit.logging import configure_logging

    # Log lines of the stack and the bus are for a file: the screen tells the story.
    with (folder.logs / "demo.log").open("a", encoding="utf-8") as log:
        configure_logging(service="demo", stream=log)
        return asyncio.run(play(options, folder, screen))


def _print(report: Report, screen: Screen, *, as_json: bool) -> None:
    from phalanx_cli.demo.report import as_json as to_json
    from phalanx_cli.demo.report import render

    screen.console.print(render(report))
    if as_json:
        sys.stdout.write(to_json(report) + "\n")


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"phalanx demo: {text}\n")
    return code
