"""Carries out a drill on one node, notes what was there before, and puts it back.

Refuses what would touch a real machine: a real kernel log only with force, the state of a real GPU or of the kernel's
own /sys never. The note lies beside the node's host.json, so another process can undo what this one did.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx_cli.drill.fake_state import ControlFile, Values
from phalanx_cli.drill.injection import Injection, Kind, Order, plan
from phalanx_cli.drill.kernel_log_file import append_records
from phalanx_cli.drill.node_card import NO_KERNEL_LOG, NodeCard
from phalanx_cli.drill.xid_lines import recovery_line

JOURNAL = "injected.json"
JOURNAL_MAX = 1_000
"""Injections that can be undone; a drill that never cleans up loses the oldest."""
USER_RECORD = "<3>{text}\n"
"""How user space writes to /dev/kmsg; the kernel gives it a facility of user space."""


class Refused(Exception):
    """The node is, or may be, a real one; the text says what would make it a drill's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was written, as lines for people."""

    wrote: tuple[str, ...]
    expect: str


def content(card: NodeCard) -> Values:
    """Of the control file; empty where the node has none."""
    return ControlFile(card.fake_state).read() if card.fake_state is not None else {}


def inject(card: NodeCard, order: Order, *, force: bool) -> Done:
    """Do it.

    Raises:
        Refused: on a real node, or on one whose host role does not run.
        BadDrill: the order makes no sense.
        OSError: something cannot be written.
    """
    injection = plan(order, content(card))
    _check(card, injection, force=force)
    wrote: list[str] = []
    before: dict[str, str | None] = {}
    files: dict[str, str] = {}
    if injection.state and card.fake_state is not None:
        control = ControlFile(card.fake_state)
        known = control.read()
        before = {key: known.get(key) for key in injection.state}
        control.set(injection.state)
        wrote += [f"{card.fake_state}: {key} {value}" for key, value in injection.state.items()]
    if injection.files and not card.sysfs_is_real:
        files = _write_files(card, injection, wrote)
    _note(card, {"kind": order.kind.value, "gpu": order.gpu.index, "state": before, "files": files})
    if injection.kernel:
        wrote += _write_kernel_log(card, injection.kernel)
    return Done(wrote=tuple(wrote), expect=injection.expect)


def undo(card: NodeCard, order: Order | None) -> Done:
    """Put back what was there before: of one kind and GPU, or, without an order, everything. The newest first."""
    notes = _notes(card)
    chosen = [note for note in notes if order is None or _same(note, order)]
    wrote: list[str] = []
    for note in reversed(chosen):
        if card.fake_state is not None:
            _restore_state(card, order, note, wrote)
        for name, text in note["files"].items():
            Path(name).write_text(text, encoding="utf-8")
            wrote.append(f"{name}: {text.strip()}")
    _keep(card, [note for note in notes if note not in chosen])
    expect = "what was bad is good again at the next looks" if chosen else "nothing of this had been injected"
    return Done(wrote=tuple(wrote), expect=expect)


def _check(card: NodeCard, injection: Injection, *, force: bool) -> None:
    if injection.state and not injection.state_may_lack and card.fake_state is None:
        raise Refused(
            f"{card.node_id} has a real driver library, or none: its GPUs cannot be broken by a command, forced or "
            "not. A drill's node runs on the fake library (docs/nvml.md)"
        )
    if injection.kernel and card.kmsg_path == NO_KERNEL_LOG:
        raise Refused(f"{card.node_id} reads no kernel log (--kmsg none); a drill's node reads a file: --kmsg FILE")
    if injection.kernel and card.kernel_log_is_real and not force:
        raise Refused(
            f"{card.node_id} reads a real kernel log, {card.kmsg_path}. A drill's node reads a file: "
            "`phalanx host --kmsg FILE`; --force writes there as user space, which the reader refuses to believe"
        )
    if not card.alive and not force:
        raise Refused(f"the host role of {card.node_id} (pid {card.pid}) has ended; start it again, or use --force")


def _write_kernel_log(card: NodeCard, texts: tuple[str, ...]) -> list[str]:
    if not card.kernel_log_is_real:
        return [f"{card.kmsg_path}: {record}" for record in append_records(card.kmsg_path, texts)]
    with card.kmsg_path.open("w", encoding="utf-8") as device:
        for text in texts:
            device.write(USER_RECORD.format(text=text))
            device.flush()
    return [f"{card.kmsg_path} (as user space): {text}" for text in texts]


def _write_files(card: NodeCard, injection: Injection, wrote: list[str]) -> dict[str, str]:
    """Only files that are there: a drill changes its made-up /sys, it does not build one."""
    before = {}
    for name, text in injection.files.items():
        path = card.sys_root / name
        if path.is_file():
            before[str(path)] = path.read_text(encoding="utf-8")
            path.write_text(text, encoding="utf-8")
            wrote.append(f"{path}: {text.strip()}")
    return before


def _restore_state(card: NodeCard, order: Order | None, note: dict[str, Any], wrote: list[str]) -> None:
    assert card.fake_state is not None
    before: dict[str, str | None] = note["state"]
    control = ControlFile(card.fake_state)
    now = control.read()

    def restored(values: Values) -> Values:
        kept = {key: value for key, value in values.items() if key not in before}
        return kept | {key: value for key, value in before.items() if value is not None}

    # Events are counted by their number, which must not go back.
    before = {key: value for key, value in before.items() if not key.endswith(".event_seq")}
    control.change(restored)
    wrote += [f"{card.fake_state}: {key} {value or '(as before: healthy)'}" for key, value in before.items()]
    if note["kind"] == Kind.RECOVERY_ACTION.value and order is not None and not card.kernel_log_is_real:
        [(key, was)] = before.items()
        line = recovery_line(order.gpu, int(now.get(key, "0"), 0), int(was or "0", 0))
        wrote += _write_kernel_log(card, (line,))


def _same(note: dict[str, Any], order: Order) -> bool:
    return bool(note["kind"] == order.kind.value and note["gpu"] == order.gpu.index)


def _notes(card: NodeCard) -> list[dict[str, Any]]:
    try:
        notes = json.loads((card.folder / JOURNAL).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise OSError(f"{card.folder / JOURNAL} is no JSON: {error}") from error
    return notes if isinstance(notes, list) else []


def _note(card: NodeCard, note: dict[str, Any]) -> None:
    _keep(card, [*_notes(card), note])


def _keep(card: NodeCard, notes: list[dict[str, Any]]) -> None:
    half = card.folder / f"{JOURNAL}.partial"
    half.write_text(json.dumps(notes[-JOURNAL_MAX:], indent=1) + "\n", encoding="utf-8")
    half.replace(card.folder / JOURNAL)
