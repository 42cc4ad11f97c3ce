"""Verdicts against truths: confusion matrix, precision and recall, actions, and the figures that are promised. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attribution_bench.incidents import Truth

CLASSES = ("hardware", "driver", "platform", "user")
UNKNOWN = "unknown"
NODE_ACTIONS = frozenset({"reset_gpu", "reboot_node", "replace_node"})
"""What costs a node, or all jobs on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was said about one incident."""

    attribution: str
    cause: str
    action: str
    confidence: float
    culprit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A verdict with its truth."""

    truth: Truth
    verdict: Verdict

    @property
    def booked(self) -> str:
        """The class that the incident counts for: the one that was named when it is defensible, else the label."""
        named = self.verdict.attribution
        return named if named in self.truth.attributions else self.truth.attributions[0]

    @property
    def right(self) -> bool:
        """Whether the attribution is right."""
        return self.verdict.attribution in self.truth.attributions

    @property
    def action_right(self) -> bool:
        """Whether the action is."""
        return self.verdict.action in self.truth.actions

    @property
    def cost_a_node(self) -> bool:
        """Whether a node would have been taken for a fault of the job's owner: what must never happen."""
        return self.truth.attributions[0] == "user" and self.verdict.action in NODE_ACTIONS

    @property
    def missed(self) -> bool:
        """Whether something scored is wrong."""
        return not self.action_right or not (self.right or self.truth.benign)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFigures:
    """Of one attribution."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of a set of outcomes. Shares are of 1; benign incidents count for actions only."""

    incidents: int
    attributed: int
    macro_f1: float
    accuracy: float
    action: float
    cause: float
    unknown: float
    nodes_on_user_faults: int
    classes: Mapping[str, ClassFigures]
    confusion: Mapping[str, Mapping[str, int]]


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """Of any number of outcomes; of none all shares are 0."""
    scored = [each for each in outcomes if not each.truth.benign]
    counted = Counter((each.booked, each.verdict.attribution) for each in scored)
    classes = {name: _of_class(name, counted) for name in CLASSES}
    # A class that is neither true nor said of any incident has no F1; it must not pull a small split's mean down.
    present = [each.f1 for name, each in classes.items() if any(name in pair for pair in counted)]
    return Figures(
        incidents=len(outcomes),
        attributed=len(scored),
        macro_f1=sum(present) / len(present) if present else 0.0,
        accuracy=_share(each.right for each in scored),
        action=_share(each.action_right for each in outcomes),
        cause=_share(each.verdict.cause == each.truth.cause for each in outcomes),
        unknown=_share(each.verdict.attribution == UNKNOWN for each in scored),
        nodes_on_user_faults=sum(each.cost_a_node for each in outcomes),
        classes=classes,
        confusion={
            name: {said: counted[name, said] for said in (*CLASSES, UNKNOWN) if counted[name, said]} for name in CLASSES
        },
    )


def splits(outcomes: Sequence[Outcome]) -> dict[str, Figures]:
    """The figures of all, and of each basis and of tricky and plain incidents."""
    bases = sorted({each.truth.basis for each in outcomes})
    return {
        "all": figures(outcomes),
        **{f"basis {name}": figures([each for each in outcomes if each.truth.basis == name]) for name in bases},
        "tricky": figures([each for each in outcomes if each.truth.tricky]),
        "not tricky": figures([each for each in outcomes if not each.truth.tricky]),
    }


def _of_class(name: str, counted: Counter[tuple[str, str]]) -> ClassFigures:
    hit = counted[name, name]
    said = sum(count for (_, verdict), count in counted.items() if verdict == name)
    true = sum(count for (booked, _), count in counted.items() if booked == name)
    precision = hit / said if said else 0.0
    recall = hit / true if true else 0.0
    both = precision + recall
    return ClassFigures(
        precision=precision, recall=recall, f1=2 * precision * recall / both if both else 0.0, support=true
    )


def _share(flags: Iterable[bool]) -> float:
    all_of_them = list(flags)
    return sum(all_of_them) / len(all_of_them) if all_of_them else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What issue 5 promises of the labelled set."""

    macro_f1_min: float = 0.90
    action_min: float = 0.85
    nodes_on_user_faults_max: int = 0
    lost_max: float = 0.03


def not_reached(found: Figures, targets: Targets | None = None) -> list[str]:
    """The promised figures that a set does not reach, in words."""
    asked = targets or Targets()
    out = []
    if found.macro_f1 < asked.macro_f1_min:
        out.append(f"macro-F1 is {found.macro_f1:.3f}; at least {asked.macro_f1_min:.2f} is promised")
    if found.action < asked.action_min:
        out.append(f"the action is right in {found.action:.1%}; at least {asked.action_min:.0%} is promised")
    if found.nodes_on_user_faults > asked.nodes_on_user_faults_max:
        out.append(f"{found.nodes_on_user_faults} node action(s) on user faults; none is promised")
    return out


def lost(base: Figures, varied: Sequence[Figures]) -> tuple[float, float]:
    """Median of macro-F1 and of action that a variant loses over its seeds; below 0 where it gains."""
    f1 = sorted(base.macro_f1 - each.macro_f1 for each in varied)
    action = sorted(base.action - each.action for each in varied)
    return _median(f1), _median(action)


def _median(values: Sequence[float]) -> float:
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
