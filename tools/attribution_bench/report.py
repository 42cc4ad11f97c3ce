"""The printed tables of `make bench-attribution`, and the same as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from attribution_bench.scoring import CLASSES, UNKNOWN, Figures, Outcome
from attribution_bench.speed import Reading


def confusion_lines(found: Figures) -> list[str]:
    """Rows: what is true. Columns: what was said."""
    out = [f"{'true, said:':12}" + "".join(f"{name:>10}" for name in (*CLASSES, UNKNOWN)) + "   precision recall    F1"]
    for name in CLASSES:
        row = "".join(f"{found.confusion[name].get(said, 0) or '.':>10}" for said in (*CLASSES, UNKNOWN))
        of = found.classes[name]
        out.append(f"{name:12}{row}   {of.precision:9.2f} {of.recall:6.2f} {of.f1:5.2f}")
    return out


def split_lines(found: Mapping[str, Figures]) -> list[str]:
    """One row for each split."""
    out = [f"{'':28}{'n':>5}{'macro-F1':>10}{'right':>8}{'unknown':>9}{'action':>8}{'cause':>8}{'nodes/user':>12}"]
    for name, of in found.items():
        out.append(
            f"{name:28}{of.incidents:5}{of.macro_f1:10.3f}{of.accuracy:8.1%}{of.unknown:9.1%}{of.action:8.1%}"
            f"{of.cause:8.1%}{of.nodes_on_user_faults:12}"
        )
    return out


def miss_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Each outcome in which something scored is wrong: what is true, what was said."""
    out = []
    for each in outcomes:
        if not each.missed:
            continue
        truth, said = each.truth, each.verdict
        mark = "NODE " if each.cost_a_node else "benign " if truth.benign else ""
        out.append(
            f"{truth.incident}: {mark}want {'|'.join(truth.attributions)} {truth.cause} {'|'.join(truth.actions)}; "
            f"got {said.attribution} {said.cause} {said.action} {said.confidence:.2f} {said.culprit}".rstrip()
        )
    return out


def variant_lines(found: Mapping[str, tuple[float, ...]]) -> list[str]:
    """Medians of what each variant loses, with the number of node actions on user faults in all its runs."""
    out = [f"{'':28}{'F1 lost':>9}{'action lost':>13}{'nodes/user':>12}"]
    for name, (f1, action, nodes) in found.items():
        out.append(f"{name:28}{f1:9.3f}{action:13.3f}{nodes:12.0f}")
    return out


def speed_lines(found: Sequence[Reading]) -> list[str]:
    """Lines a second of CPU, and what it took."""
    out = [f"{'':44}{'lines':>11}{'MiB':>7}{'CPU s':>8}{'wall s':>8}{'lines/s':>12}{'RSS MiB':>9}"]
    for each in found:
        rss = f"{each.rss_mib:9.0f}" if each.rss_mib else f"{'':9}"
        out.append(
            f"{each.what:44}{each.lines:11,}{each.bytes / (1 << 20):7.0f}{each.cpu_s:8.2f}{each.wall_s:8.2f}"
            f"{each.lines_per_s:12,.0f}{rss}"
        )
    return out


def as_data(found: Mapping[str, Figures], outcomes: Sequence[Outcome]) -> dict[str, object]:
    """For --json."""
    return {
        "figures": {name: asdict(of) for name, of in found.items()},
        "verdicts": [
            {"incident": each.truth.incident, "right": each.right, "action_right": each.action_right}
            | asdict(each.verdict)
            for each in outcomes
        ],
    }
