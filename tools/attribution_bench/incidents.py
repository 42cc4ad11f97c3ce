"""Labelled incidents as files: what the engine may see (evidence), and apart from it what is true of them.

Two readers, so that nothing that judges ever holds a truth: `read_evidence` opens an incident's own file only, and
`read_truths` is called by the scoring after all verdicts are there.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from fault_attribution.evidence_line import EvidenceLine, Source

TRUTH_FILE = "truth.tsv"
YES = {"true": True, "false": False, "": False}


class IncidentsRefused(ValueError):
    """A folder of incidents that cannot be scored; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One piece of evidence, as the file has it."""

    source: str
    line: str
    node: str = ""
    rank: int | None = None
    offset_s: float | None = None

    @property
    def stream(self) -> tuple[str, int, str]:
        """What wrote it: within one such stream the order of lines is known."""
        return (self.node, -1 if self.rank is None else self.rank, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true of an incident.

    Attributes:
        attributions: the label, then those that are equally defensible.
        actions: the right action, then others that are right too.
        benign: waiting or ignoring is right; scored on the action only.
    """

    incident: str
    attributions: tuple[str, ...]
    actions: tuple[str, ...]
    cause: str
    basis: str
    tricky: bool
    benign: bool


def evidence_files(folder: Path) -> dict[str, Path]:
    """The incidents of a folder by name.

    Raises:
        IncidentsRefused: when there are none.
    """
    found = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if not found:
        raise IncidentsRefused(f"{folder}: no incident (*.yaml) in it")
    return found


def read_evidence(path: Path) -> tuple[Event, ...]:
    """The events of one incident file.

    Raises:
        IncidentsRefused: when it is no incident.
    """
    try:
        rows = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["evidence"]
        return tuple(
            Event(
                source=str(row["source"]),
                line=str(row["line"]),
                node=str(row.get("node") or ""),
                rank=None if row.get("rank") is None else int(row["rank"]),
                offset_s=None if row.get("offset_s") is None else float(row["offset_s"]),
            )
            for row in rows
        )
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise IncidentsRefused(f"{path}: no incident: {error!r}") from error


def as_lines(events: Sequence[Event], name: str) -> list[EvidenceLine]:
    """Events as the engine takes them."""
    known = {str(each) for each in Source}
    return [
        EvidenceLine(
            text=each.line,
            source=Source(each.source) if each.source in known else Source.UNKNOWN,
            node=each.node,
            rank=each.rank,
            at_s=each.offset_s,
            stream=name,
            number=number,
        )
        for number, each in enumerate(events, start=1)
    ]


def as_yaml(events: Sequence[Event], name: str) -> str:
    """Events as an incident file, for `phalanx diagnose`."""
    rows = [
        {
            "source": each.source,
            **({"node": each.node} if each.node else {}),
            **({} if each.rank is None else {"rank": each.rank}),
            **({} if each.offset_s is None else {"offset_s": each.offset_s}),
            "line": each.line,
        }
        for each in events
    ]
    return yaml.safe_dump({"incident": name, "evidence": rows}, sort_keys=False, allow_unicode=True, width=4_000)


def read_truths(folder: Path) -> dict[str, Truth]:
    """What is true of each incident of a folder.

    Raises:
        IncidentsRefused: when the file is missing, or a row is not understood.
    """
    path = folder / TRUTH_FILE
    if not path.is_file():
        raise IncidentsRefused(f"{path}: missing; without it nothing can be scored")
    found: dict[str, Truth] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE), start=2):
            try:
                found[row["incident"]] = Truth(
                    incident=row["incident"],
                    attributions=(row["attribution"], *_more(row["also_attribution"])),
                    actions=(row["action"], *_more(row["also_action"])),
                    cause=row["cause"],
                    basis=row["basis"],
                    tricky=YES[row["tricky"]],
                    benign=YES[row["benign"]],
                )
            except KeyError as error:
                raise IncidentsRefused(f"{path}:{number}: missing or not understood: {error}") from error
    return found


def _more(text: str) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split("|") if part)
