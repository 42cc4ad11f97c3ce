"""Where is each rank, by the stack of its main thread, and which ranks are where the others are not?

The ranks that wait for a culprit are in a collective; the culprit is not. Places are told by file and function names,
so a name can mislead: what follows from a place is decided in hang_verdict, together with other evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from node_agent.domain.python_traceback import Frame
from node_agent.domain.stack_dump import StackDump
from node_agent.domain.step_times import TrainingPhase
from training_topology.identity import Rank

MOVED_FRAMES = 20
"""Innermost frames compared between two dumps; deeper ones do not change while training runs."""


class StackPlace(StrEnum):
    """What the main thread is in."""

    COLLECTIVE = "collective"
    """In a call that needs other ranks: a collective, send, receive, or the store at the start."""
    BACKWARD = "backward"
    """In autograd's engine: computing, or waiting for the reduction of gradients (DDP hides it there)."""
    DEVICE = "device"
    """Waiting for the GPU: it computes, or its kernels wait for other ranks."""
    DATA_LOADER = "data_loader"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    OTHER = "other"


_WAIT_ANYWHERE = re.compile(
    r"torch/distributed/(?:distributed_c10d|_functional_collectives|rendezvous)\.py$|torch/distributed/nn/functional\.py$"
    r"|/(?:deepspeed/comm|horovod)/"
)
"""Files that call nothing of the user's: a frame of them anywhere on the stack means that the rank is in the call."""
_WAIT_INNERMOST = re.compile(
    r"torch/distributed/(?!elastic/|checkpoint/)|torch/nn/parallel/distributed\.py$|/p2p_communication\.py$"
)
"""Files that also call the user's code: they count only as the innermost frame."""
_BACKWARD = re.compile(r"torch/autograd/(?:graph|__init__)\.py$")
_DEVICE = re.compile(r"torch/(?:cuda|xpu|accelerator)/(?:__init__|streams)\.py$")
_DATA_LOADER = re.compile(r"torch/utils/data/")
_CHECKPOINT_FILE = re.compile(r"torch/serialization\.py$|torch/distributed/checkpoint/|/safetensors/")
_CHECKPOINT_FUNCTION = re.compile(
    r"^_*(?:save|load|write|read|restore|store|upload|download)(?:_\w*)?(?:checkpoint|ckpt|snapshot|state_dict|model)"
    r"|^_*(?:checkpoint|ckpt|snapshot)_(?:save|load|write|read|restore)|^(?:save|checkpoint)$"
)
_EVALUATION_FUNCTION = re.compile(r"(?:^|_)(?:eval|evaluate|evaluation|validate|validation)(?:_|$)")
_TORCH = re.compile(r"/torch/")
"""Its own `checkpoint` recomputes activations and its `eval` sets a flag: names count in other code only."""
_WRAPPERS = re.compile(r"torch/distributed/c10d_logger\.py$")
_LAUNCHER = re.compile(r"/worker_link/|^<frozen |^<string>")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStack:
    """Where one rank is.

    Attributes:
        activity: a long phase around the place, told by the outer frames; also when the rank waits in its midst.
        operation: what ranks that are in the same place have in common: the collective, or the user's function.
        where: the user's innermost frame, for people.
        frames: innermost first.
    """

    place: StackPlace
    activity: TrainingPhase | None
    operation: str
    where: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup:
    """Ranks in the same place."""

    place: StackPlace
    operation: str
    ranks: tuple[Rank, ...]
    where: str

    def __str__(self) -> str:
        names = ", ".join(str(rank) for rank in self.ranks[:8]) + (", ..." if len(self.ranks) > 8 else "")
        many = "ranks" if len(self.ranks) > 1 else "rank"
        return f"{many} {names}: {self.place} ({self.operation}) at {self.where}"


def stack_of(dump: StackDump | None) -> RankStack | None:
    """Where a rank's main thread is; None when the dump does not show it."""
    main = dump.main if dump is not None else None
    if main is None or not main.frames:
        return None
    return classify(main.frames)


def classify(frames: Sequence[Frame]) -> RankStack:
    """Name the place of a stack, innermost frame first.

    Raises:
        ValueError: no frames.
    """
    if not frames:
        raise ValueError("an empty stack is nowhere")
    user = next((frame for frame in frames if _is_users(frame)), frames[0])
    place = _place_of(frames)
    return RankStack(
        place=place,
        activity=_activity_of(frames),
        operation=_collective_of(frames) if place is StackPlace.COLLECTIVE else user.function,
        where=f"{_file_name(user.file)}:{user.line} in {user.function}",
        frames=tuple(frames),
    )


def group_stacks(stacks: Mapping[Rank, RankStack]) -> tuple[StackGroup, ...]:
    """Ranks by place, operation and, outside of collectives, file; the largest group first."""
    found: dict[tuple[str, ...], list[Rank]] = {}
    for rank in sorted(stacks):
        stack = stacks[rank]
        file = "" if stack.place is StackPlace.COLLECTIVE else stack.where.partition(":")[0]
        found.setdefault((stack.place, stack.operation, file), []).append(rank)
    groups = [
        StackGroup(
            place=stacks[ranks[0]].place,
            operation=stacks[ranks[0]].operation,
            ranks=tuple(ranks),
            where=stacks[ranks[0]].where,
        )
        for ranks in found.values()
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.ranks), group.ranks)))


def outside_collective(stacks: Mapping[Rank, RankStack]) -> tuple[Rank, ...]:
    """The ranks whose stack is not in a collective while that of others is; empty when none or all are."""
    inside = {rank for rank, stack in stacks.items() if stack.place is StackPlace.COLLECTIVE}
    return tuple(sorted(stacks.keys() - inside)) if inside else ()


def has_moved(before: RankStack, now: RankStack) -> bool:
    """Whether the main thread is elsewhere than in the dump before."""
    return before.frames[:MOVED_FRAMES] != now.frames[:MOVED_FRAMES]


def _place_of(frames: Sequence[Frame]) -> StackPlace:
    innermost = next((frame for frame in frames if not _WRAPPERS.search(frame.file)), frames[0])
    if any(_WAIT_ANYWHERE.search(frame.file) for frame in frames) or _WAIT_INNERMOST.search(innermost.file):
        return StackPlace.COLLECTIVE
    if _BACKWARD.search(innermost.file):
        return StackPlace.BACKWARD
    if _DEVICE.search(innermost.file) and innermost.function in ("synchronize", "wait"):
        return StackPlace.DEVICE
    for frame in frames:
        if _DATA_LOADER.search(frame.file):
            return StackPlace.DATA_LOADER
        activity = _activity_of_frame(frame)
        if activity is not None:
            return _PLACE_OF_ACTIVITY[activity]
    return StackPlace.OTHER


_PLACE_OF_ACTIVITY = {
    TrainingPhase.CHECKPOINT: StackPlace.CHECKPOINT,
    TrainingPhase.EVALUATION: StackPlace.EVALUATION,
}


def _activity_of(frames: Sequence[Frame]) -> TrainingPhase | None:
    return next((found for frame in frames if (found := _activity_of_frame(frame)) is not None), None)


def _activity_of_frame(frame: Frame) -> TrainingPhase | None:
    if _CHECKPOINT_FILE.search(frame.file):
        return TrainingPhase.CHECKPOINT
    if _TORCH.search(frame.file):
        return None
    if _CHECKPOINT_FUNCTION.search(frame.function):
        return TrainingPhase.CHECKPOINT
    return TrainingPhase.EVALUATION if _EVALUATION_FUNCTION.search(frame.function) else None


def _collective_of(frames: Sequence[Frame]) -> str:
    """The call as the user (or DDP, or FSDP) made it: the outermost of those that one collective is made of."""
    inside = [frame for frame in frames if _WAIT_ANYWHERE.search(frame.file)]
    return inside[-1].function if inside else frames[0].function


def _is_users(frame: Frame) -> bool:
    return not frame.in_library and not _LAUNCHER.search(frame.file)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
