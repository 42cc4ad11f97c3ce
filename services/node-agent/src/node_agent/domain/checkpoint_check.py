"""Is a checkpoint on the file system what its rank said it is? Facts in, a verdict with its reason out.

A file that is torn is worse than no file: the planner would send every rank to it. What cannot be seen from here (an
object store) is unknown, and unknown does not overrule the rank's own word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckLevel(StrEnum):
    """How closely to look; each level includes those before it."""

    NONE = "none"
    EXISTS = "exists"
    """It is there. A torch DCP folder has its `.metadata` and every file that this names."""
    SIZE = "size"
    """It is not empty, does not change between two looks, and the end that its format promises is there."""
    CHECKSUM = "checksum"
    """Files with a sidecar `<file>.sha256` have this sum."""


class PathKind(StrEnum):
    """What a path leads to."""

    FILE = "file"
    FOLDER = "folder"
    MISSING = "missing"
    UNSEEN = "unseen"
    """Nothing that this machine's file systems know: s3://, or a relative path of a process that is gone."""
    UNREADABLE = "unreadable"
    """No permission, an input/output error, or no answer in time; `problem` says which."""


class Outcome(StrEnum):
    """What a check came to."""

    OK = "ok"
    UNKNOWN = "unknown"
    NOT_YET = "not_yet"
    """Wrong now and may be right in a moment: missing, empty, growing, unfinished."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFacts:
    """What one look found.

    Attributes:
        files: files in it, 1 for a file.
        size_bytes: of all of them.
        changed_ns: the newest modification time; with size and number of files it tells one state from another.
        empty: the first few files of size 0.
        torn: files whose format promises an end that is not there, each with why.
        manifest: a torch DCP folder: what its `.metadata` names and is not there; None: no DCP folder.
        mismatched: files whose sidecar checksum differs, each with why; read at the level checksum only.
        problem: why it could not be looked at.
        truncated: there were more files than are looked at.
    """

    kind: PathKind
    files: int = 0
    size_bytes: int = 0
    changed_ns: int = 0
    empty: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()
    manifest: tuple[str, ...] | None = None
    mismatched: tuple[str, ...] = ()
    problem: str = ""
    truncated: bool = False

    @property
    def state(self) -> tuple[int, int, int]:
        """Equal for two looks between which nothing was written."""
        return self.files, self.size_bytes, self.changed_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome and why."""

    outcome: Outcome
    rule_id: str
    sentence: str


def judge(path: str, level: CheckLevel, facts: PathFacts, before: PathFacts | None) -> Verdict:
    """Decide on one look; `before` is the look before it, None for the first one.

    At the levels size and checksum the first look can only be bad or not yet: whether the file still changes needs two.
    """
    seen = _seen(path, facts)
    if seen is not None:
        return seen
    if facts.manifest:
        missing = ", ".join(facts.manifest[:4])
        return Verdict(
            outcome=Outcome.NOT_YET,
            rule_id="checkpoint.manifest",
            sentence=f"{path}: {len(facts.manifest)} files of its manifest are missing or empty: {missing}",
        )
    if facts.kind is PathKind.FOLDER and facts.files == 0:
        return Verdict(outcome=Outcome.NOT_YET, rule_id="checkpoint.empty", sentence=f"{path} is an empty folder")
    if level in (CheckLevel.SIZE, CheckLevel.CHECKSUM):
        unfinished = _unfinished(path, facts, before)
        if unfinished is not None:
            return unfinished
    if level is CheckLevel.CHECKSUM and facts.mismatched:
        return Verdict(
            outcome=Outcome.NOT_YET,
            rule_id="checkpoint.checksum",
            sentence=f"{path}: {'; '.join(facts.mismatched[:4])}",
        )
    more = ", of more than are looked at" if facts.truncated else ""
    return Verdict(
        outcome=Outcome.OK,
        rule_id="checkpoint.ok",
        sentence=f"{path}: {facts.files} files{more}, {facts.size_bytes} bytes",
    )


def _seen(path: str, facts: PathFacts) -> Verdict | None:
    match facts.kind:
        case PathKind.UNSEEN:
            return Verdict(
                outcome=Outcome.UNKNOWN, rule_id="checkpoint.unseen", sentence=f"{path} cannot be seen from here"
            )
        case PathKind.MISSING:
            return Verdict(outcome=Outcome.NOT_YET, rule_id="checkpoint.missing", sentence=f"{path} does not exist")
        case PathKind.UNREADABLE:
            return Verdict(
                outcome=Outcome.BAD, rule_id="checkpoint.unreadable", sentence=f"{path}: {facts.problem}"[:2_000]
            )
        case PathKind.FILE | PathKind.FOLDER:
            return None


def _unfinished(path: str, facts: PathFacts, before: PathFacts | None) -> Verdict | None:
    if facts.size_bytes == 0:
        return Verdict(outcome=Outcome.NOT_YET, rule_id="checkpoint.empty", sentence=f"{path} has 0 bytes")
    if facts.kind is PathKind.FILE and facts.empty:
        return Verdict(outcome=Outcome.NOT_YET, rule_id="checkpoint.empty", sentence=f"{path} has 0 bytes")
    if facts.torn:
        return Verdict(
            outcome=Outcome.NOT_YET, rule_id="checkpoint.torn", sentence=f"{path}: {'; '.join(facts.torn[:4])}"
        )
    if before is None or before.state != facts.state:
        return Verdict(
            outcome=Outcome.NOT_YET,
            rule_id="checkpoint.changing",
            sentence=f"{path} still changes ({facts.files} files, {facts.size_bytes} bytes)",
        )
    return None
