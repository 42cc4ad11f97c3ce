"""`phalanx rules`: are the rules sound, do their tests hold, and what does one of them say?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fault_attribution.loading.rule_files import RuleSet

EXIT_TEST_FAILED = 1
EXIT_BAD = 2

rules = typer.Typer(
    name="rules",
    help="Check, test and explain the rules of attribution: signatures of lines, and causes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folders = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[DIR]...",
        help="A site's own folders, over the shipped rules; without any those of PHALANX_RULES, separated by colons.",
    ),
]
Over = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="DIR", help="A site's own folder; repeatable; default: those of PHALANX_RULES."),
]


@rules.command(epilog="Example:\n\n  phalanx rules lint /etc/phalanx/rules")
def lint(folders: Folders = None) -> None:
    """Say what is wrong with rules, each with file, line and reason; exit code 2 when anything is.

    Beside what cannot be read at all: patterns that cannot run in linear time or have no fixed text, overrides of
    signatures that do not exist, twins, and terms that name a kind which nothing finds.
    """
    from fault_attribution.checking.rule_lint import lint as problems_of

    known = _read(folders)
    problems = problems_of(known)
    for problem in problems:
        typer.echo(str(problem))
    if problems:
        typer.echo(f"{len(problems)} problems", err=True)
        raise typer.Exit(EXIT_BAD)
    typer.echo(f"sound: {len(known.signatures)} signatures, {len(known.causes.rules)} cause rules")


@rules.command("test", epilog="Example:\n\n  phalanx rules test /etc/phalanx/rules")
def run_tests(folders: Folders = None) -> None:
    """Run the tests that rules carry, through the whole engine; exit code 1 when one fails.

    All rules are in force together: a new cause that takes the verdict of a shipped one fails the shipped one's test.
    """
    from fault_attribution.checking.rule_tests import run_tests as run_all
    from fault_attribution.matching.signature_matcher import SignatureRefused

    known = _read(folders)
    try:
        run = run_all(known)
    except SignatureRefused as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_BAD) from error
    for problem in run.failed:
        typer.echo(str(problem))
    if run.failed:
        typer.echo(f"{len(run.failed)} of {run.ran} tests failed", err=True)
        raise typer.Exit(EXIT_TEST_FAILED)
    typer.echo(f"{run.ran} tests hold")


@rules.command(
    epilog="Examples:\n\n  phalanx rules explain user.cuda_oom\n\n  phalanx rules explain xid_79\n\n"
    "  phalanx rules explain gpu_fell_off_bus"
)
def explain(
    word: Annotated[str, typer.Argument(metavar="RULE_ID|KIND|CAUSE", help="As a verdict or another rule names it.")],
    over: Over = None,
) -> None:
    """Say what a rule, a kind of finding or a cause is: pattern, weights, source, and which rules use it."""
    from phalanx_cli.rules.rule_text import explain as lines_of

    lines = lines_of(_read(over), word)
    if not lines:
        typer.echo(f"rules: {word!r} is no id of a rule, no kind and no cause; `phalanx rules list` has all", err=True)
        raise typer.Exit(EXIT_BAD)
    typer.echo("\n".join(lines).rstrip())


@rules.command("list")
def list_(over: Over = None) -> None:
    """Print one line for each rule: id, role, kind or cause, meaning."""
    from phalanx_cli.rules.rule_text import listed

    typer.echo("\n".join(listed(_read(over))))


def _read(folders: list[Path] | None) -> RuleSet:
    from fault_attribution.loading.rule_files import load_rules
    from service_kit.yaml_fields import PolicyRefused

    named = folders or [Path(each) for each in os.environ.get("PHALANX_RULES", "").split(":") if each]
    try:
        return load_rules(named)
    except PolicyRefused as error:
        typer.echo(f"rules: {error}", err=True)
        raise typer.Exit(EXIT_BAD) from error
