"""`phalanx diagnose`: logs in, a verdict out. Needs no bus, no services and no GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fault_attribution.evidence_line import Source
from phalanx_cli.commands.bus_question import fail
from phalanx_cli.foreign_text import print_lines, printable

if TYPE_CHECKING:
    from fault_attribution.engine import Engine
    from phalanx_cli.diagnose.evidence_reader import Choice
    from phalanx_cli.diagnose.reading import Reading
    from phalanx_cli.diagnose.reading_notes import ReadingNotes

EXIT_VERDICT = 0
EXIT_BAD_INPUT = 2
EXIT_UNKNOWN = 3
EXIT_INTERRUPTED = 130
PROGRESS_FROM_BYTES = 32 << 20
"""Less is read before a bar would be seen."""
RANK_MAX = 9_999_999

EPILOG = """\
What PATH may be, recognised from its content: a torchrun --log-dir or a folder of logs per rank; Slurm output, also
with srun -l; a console with [default0]: or [rank3]:; dmesg, journalctl (also -o json), syslog; kubectl logs, get events
(also -o yaml or json), describe; nvidia-smi -q, its columns, DCGM metrics; an incident file; tar, zip, gz, bz2, xz of
these. Ranks and nodes are read off names such as rank_3.log, node01.out, job.node01.3 and off the lines.

Examples:

  phalanx diagnose logs/                             everything below a folder is one incident

  phalanx diagnose logs/ node17-dmesg.txt            a kernel log makes a verdict about hardware possible

  kubectl logs -l job=llm --prefix | phalanx diagnose -

  phalanx diagnose --node n17 --source kmsg dump     what the content does not tell

  phalanx diagnose --each --format json incidents/*.yaml

  phalanx diagnose --list-findings logs/             what was recognised, line by line
"""


class Format(StrEnum):
    """How the diagnosis is printed."""

    TEXT = "text"
    JSON = "json"


def diagnose(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, archives, or - for stdin.")],
    output: Annotated[Format, typer.Option("--format", help="For a person, or JSON.")] = Format.TEXT,
    each: Annotated[bool, typer.Option("--each", help="One verdict for each PATH; else one over all.")] = False,
    source: Annotated[Source | None, typer.Option(help="What wrote the lines, whatever they look like.")] = None,
    node: Annotated[str, typer.Option(help="Node that all lines are of.")] = "",
    rank: Annotated[int | None, typer.Option(min=0, max=RANK_MAX, help="Rank that all lines are of.")] = None,
    year: Annotated[int | None, typer.Option(min=1970, max=9998, help="Of stamps without one; default: now's.")] = None,
    world_size: Annotated[int | None, typer.Option(min=1, max=RANK_MAX + 1, help="Ranks that the job had.")] = None,
    rules: Annotated[list[Path] | None, typer.Option(help="Folder of a site's own rules; repeatable.")] = None,
    list_findings: Annotated[bool, typer.Option("--list-findings", help="Print what was recognised instead.")] = False,
) -> None:
    """Say whose fault a failed job was, and why, from its logs: hardware, driver, platform or the job itself.

    Nothing else of Phalanx needs to run. Lines are only read: nothing in a log is executed, expanded, or unpacked to
    disk.

    Exit code 0 with a verdict; 3 when it is unknown, or when no failure was found; 2 when nothing could be read.
    """
    from phalanx_cli.diagnose.evidence_reader import Choice
    from service_kit.clock import SystemClock

    choice = Choice(year=year or SystemClock().now().year, source=source, node=node, rank=rank)
    raise typer.Exit(
        run_diagnose(
            paths, choice, output=output, each=each, rules=rules or [], world_size=world_size, findings=list_findings
        )
    )


def run_diagnose(
    paths: list[str],
    choice: Choice,
    *,
    output: Format,
    each: bool = False,
    rules: list[Path],
    world_size: int | None = None,
    findings: bool = False,
) -> int:
    """Read, judge and print; returns the exit code. With `each` the worst one: 2 over 3 over 0."""
    from fault_attribution.matching.signature_matcher import SignatureRefused
    from phalanx_cli.diagnose.reading import engine_of
    from service_kit.yaml_fields import PolicyRefused

    try:
        engine = engine_of(rules)
    except (PolicyRefused, SignatureRefused) as error:
        return fail("diagnose", str(error), EXIT_BAD_INPUT)
    codes: set[int] = set()
    for group in [[path] for path in paths] if each else [paths]:
        codes.add(_one(engine, group, choice, output, world_size, labelled=each, findings=findings))
        if EXIT_INTERRUPTED in codes:
            break
    return next(code for code in (EXIT_INTERRUPTED, EXIT_BAD_INPUT, EXIT_UNKNOWN, EXIT_VERDICT) if code in codes)


def _one(
    engine: Engine,
    paths: list[str],
    choice: Choice,
    output: Format,
    world_size: int | None,
    *,
    labelled: bool,
    findings: bool,
) -> int:
    from fault_contracts.faults import Attribution
    from phalanx_cli.diagnose.person_report import skipped_lines
    from phalanx_cli.diagnose.reading import diagnose_paths
    from phalanx_cli.diagnose.reading_notes import ReadingNotes

    notes = ReadingNotes()
    try:
        with _progress(paths, notes):
            reading = diagnose_paths(engine, paths, choice, notes=notes, world_size=world_size)
    except KeyboardInterrupt:
        read = f"{notes.files} files, {notes.lines} lines, {notes.size_bytes >> 20} MiB were read"
        return fail("diagnose", f"interrupted, no verdict; {read}", EXIT_INTERRUPTED)
    if notes.files == 0:
        for line in skipped_lines(notes):
            fail("diagnose", printable(line), EXIT_BAD_INPUT)
        why = "" if notes.skipped else ": the folder is empty"
        return fail("diagnose", printable(f"nothing to read in {', '.join(paths)}{why}"), EXIT_BAD_INPUT)
    _print(reading, paths, output, labelled=labelled, findings=findings)
    unknown = reading.diagnosis.judgement.attribution is Attribution.UNKNOWN
    return EXIT_UNKNOWN if unknown else EXIT_VERDICT


def _print(reading: Reading, paths: list[str], output: Format, *, labelled: bool, findings: bool) -> None:
    from phalanx_cli.diagnose.json_report import finding_json, json_report
    from phalanx_cli.diagnose.person_report import finding_lines, odd_lines, person_lines, skipped_lines

    if findings:
        known = reading.diagnosis.findings
        as_json = output is Format.JSON
        print_lines((json.dumps(finding_json(one)) for one in known) if as_json else finding_lines(known))
    elif output is Format.TEXT:
        person_lines(reading, title=paths[0] if labelled else "")
    else:
        report = json_report(reading)
        print_lines([json.dumps({"path": paths[0], **report} if labelled else report)])
    if findings or output is Format.JSON:  # stdout is for a program; what was left out must be heard all the same
        for line in [*skipped_lines(reading.notes), *odd_lines(reading.notes)]:
            sys.stderr.write(f"phalanx diagnose: {printable(line)}\n")


@contextmanager
def _progress(paths: list[str], notes: ReadingNotes) -> Iterator[None]:
    """A bar on stderr for large inputs, where somebody looks."""
    from phalanx_cli.diagnose.input_files import size_of

    total = size_of(paths) if sys.stderr.isatty() else 0
    if total < PROGRESS_FROM_BYTES:
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        notes.on_read = lambda size: bar.update(task, completed=size)
        yield
