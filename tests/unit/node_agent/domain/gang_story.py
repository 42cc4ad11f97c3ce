"""A gang of four on a virtual clock: steps, pauses and hangs, and the looks an agent would take at them.

The agent here has one timer (progress_watch.next_look_s), a look at /proc every half second, and the verdict's own wish
to look again. Stacks are real dumps.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import stack_dumps

from node_agent.domain.hang_rules import suspect
from node_agent.domain.hang_verdict import HangPolicy, HangVerdict
from node_agent.domain.progress_limit import ProgressPolicy
from node_agent.domain.progress_watch import (
    Pace,
    PhaseBegan,
    PhaseEnded,
    PhaseRecognised,
    ProgressWatch,
    StepFinished,
    after,
    look,
    next_look_s,
)
from node_agent.domain.rank_evidence import ProcessState, RankEvidence
from node_agent.domain.stack_dump import parse_last_dump
from node_agent.domain.stack_groups import RankStack, stack_of
from node_agent.domain.step_times import TrainingPhase
from training_topology.identity import Rank

WORLD_SIZE = 4
PROC_INTERVAL_S = 0.5
STEP_S = 0.05


def read(text: str) -> RankStack:
    stack = stack_of(parse_last_dump(text))
    assert stack is not None
    return stack


_WAITS = RankEvidence(state=ProcessState.SLEEPING, cpu_share=0.01, stack=read(stack_dumps.ALL_REDUCE), moved=False)
_EVALUATES = replace(_WAITS, stack=read(stack_dumps.EVALUATE), cpu_share=0.19, moved=True)
_SAVES = replace(_WAITS, stack=read(stack_dumps.TORCH_SAVE), cpu_share=0.2, moved=True)
_ASLEEP = replace(_WAITS, stack=read(stack_dumps.SLEEP))
_COMPUTES = replace(_ASLEEP, cpu_share=0.9, moved=True)
_STOPPED = RankEvidence(state=ProcessState.STOPPED, cpu_share=0.0)


class Scene(Enum):
    """What the four ranks do while no step is finished."""

    COMPUTE = (_COMPUTES,) * 4
    ALL_EVALUATE = (_EVALUATES,) * 4
    ALL_SLEEP = (_ASLEEP,) * 4
    RANK_0_SAVES = (_SAVES, _WAITS, _WAITS, _WAITS)
    RANK_0_STUCK_SAVING = (replace(_ASLEEP, stack=_SAVES.stack), _WAITS, _WAITS, _WAITS)
    RANK_0_SLEEPS = (_ASLEEP, _WAITS, _WAITS, _WAITS)
    RANK_2_STOPPED = (_WAITS, _WAITS, _STOPPED, _WAITS)
    RANK_2_DEAD_LOCKED = (_WAITS, _WAITS, _ASLEEP, _WAITS)


@dataclass(frozen=True, kw_only=True)
class Pause:
    """The gang pauses before the step that follows `after_step`."""

    after_step: int
    duration_s: float
    scene: Scene
    declared: TrainingPhase | None = None


@dataclass
class Agent:
    """The watch, the clock and what was decided."""

    progress: ProgressPolicy = field(default_factory=ProgressPolicy)
    hang: HangPolicy = field(default_factory=HangPolicy)
    now_s: float = 0.0
    watch: ProgressWatch = field(default_factory=lambda: ProgressWatch(since_s=0.0))
    dumps: int = 0
    """Times that stacks were taken: the cost of a false lateness."""
    hangs: list[HangVerdict] = field(default_factory=list)

    def finish_step(self, step: int) -> None:
        self.watch = after(self.watch, StepFinished(step=step), now_s=self.now_s, policy=self.progress)

    def pass_time(self, duration_s: float, scene: Scene) -> HangVerdict | None:
        """Let the ranks do this for so long; ends early at a verdict to act on, which is returned."""
        began_s, end_s = self.now_s, self.now_s + duration_s
        due_s = next_look_s(self.watch, now_s=self.now_s, policy=self.progress)
        if due_s >= end_s and scene is not Scene.RANK_2_STOPPED:
            self.now_s = end_s
            return None
        first_seen_s: float | None = None
        second_dump = False
        proc_due_s = (began_s // PROC_INTERVAL_S + 1) * PROC_INTERVAL_S
        while (next_s := min(due_s, proc_due_s)) < end_s:
            self.now_s = next_s
            first_seen_s = next_s if first_seen_s is None else first_seen_s
            view = look(self.watch, now_s=self.now_s, policy=self.progress)
            is_dump = view.pace is not Pace.ON_TIME and next_s >= due_s
            ranks = self._seen(scene, next_s - first_seen_s, stacks=is_dump, again=second_dump)
            verdict = suspect(view, ranks, world_size=WORLD_SIZE, policy=self.hang)
            if verdict.is_hang:
                self.hangs.append(verdict)
                return verdict
            if is_dump:
                self.dumps += 1
                second_dump = True
                if verdict.recognised is not None:
                    event = PhaseRecognised(phase=verdict.recognised)
                    self.watch = after(self.watch, event, now_s=self.now_s, policy=self.progress)
            proc_due_s = (next_s // PROC_INTERVAL_S + 1) * PROC_INTERVAL_S
            if next_s >= due_s:
                due_s = max(next_look_s(self.watch, now_s=self.now_s, policy=self.progress), next_s + 1e-3)
            if verdict.look_again_s is not None and (is_dump or verdict.rule_id == "hang_stopped_early"):
                due_s = min(due_s, next_s + verdict.look_again_s)
        self.now_s = end_s
        return None

    def _seen(self, scene: Scene, seen_s: float, *, stacks: bool, again: bool) -> Mapping[Rank, RankEvidence]:
        """What one look shows: /proc always, stacks when they were asked for, movement from the second dump on."""
        ranks: dict[Rank, RankEvidence] = {}
        for rank, truth in enumerate(scene.value):
            seen = replace(truth, state_age_s=seen_s)
            if not stacks:
                seen = replace(seen, stack=None, moved=None)
            elif not again:
                seen = replace(seen, moved=None)
            ranks[Rank(rank)] = seen
        return ranks

    def train(self, steps: int, pauses: Sequence[Pause] = (), *, seed: int = 0, first_step_s: float = 20.0) -> None:
        """Healthy steps of 50 ms with noise and hiccups, and pauses between them."""
        chance = random.Random(seed)
        by_step: dict[int, list[Pause]] = {}
        for pause in pauses:
            by_step.setdefault(pause.after_step, []).append(pause)
        self.pass_time(first_step_s, Scene.COMPUTE)
        for step in range(1, steps + 1):
            self.finish_step(step)
            for pause in by_step.get(step, ()):
                self._pause(pause)
            hiccup_s = 0.4 if chance.random() < 0.001 else 0.0
            self.pass_time(STEP_S * chance.lognormvariate(0.0, 0.15) + hiccup_s, Scene.COMPUTE)

    def _pause(self, pause: Pause) -> None:
        if pause.declared is None:
            self.pass_time(pause.duration_s, pause.scene)
            return
        began, ended = PhaseBegan(rank=Rank(0), phase=pause.declared), PhaseEnded(rank=Rank(0))
        self.watch = after(self.watch, began, now_s=self.now_s, policy=self.progress)
        self.pass_time(pause.duration_s, pause.scene)
        self.watch = after(self.watch, ended, now_s=self.now_s, policy=self.progress)
