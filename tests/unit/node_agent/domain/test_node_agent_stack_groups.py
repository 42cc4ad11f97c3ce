"""The place of a rank by its stack, and the ranks that are not where the others are."""

from __future__ import annotations

import pytest
import stack_dumps

from node_agent.domain.python_traceback import Frame
from node_agent.domain.stack_dump import parse_last_dump
from node_agent.domain.stack_groups import (
    RankStack,
    StackPlace,
    classify,
    group_stacks,
    has_moved,
    outside_collective,
    stack_of,
)
from node_agent.domain.step_times import TrainingPhase
from training_topology.identity import Rank


def read(text: str) -> RankStack:
    stack = stack_of(parse_last_dump(text))
    assert stack is not None
    return stack


def made(*frames: tuple[str, str]) -> RankStack:
    return classify([Frame(file=file, line=10 + index, function=name) for index, (file, name) in enumerate(frames)])


@pytest.mark.parametrize(
    ("text", "place", "operation", "where"),
    [
        (stack_dumps.ALL_REDUCE, StackPlace.COLLECTIVE, "all_reduce", "train.py:14 in train_allreduce"),
        (stack_dumps.BROADCAST, StackPlace.COLLECTIVE, "broadcast", "train.py:32 in train_bcast"),
        (stack_dumps.BARRIER, StackPlace.COLLECTIVE, "barrier", "train.py:28 in train_barrier"),
        (stack_dumps.ALL_GATHER_OBJECT, StackPlace.COLLECTIVE, "all_gather_object", "train.py:65 in train_gather"),
        (stack_dumps.CHECKPOINT_GATHER, StackPlace.COLLECTIVE, "gather_object", "train.py:60 in train_dcp"),
        (stack_dumps.DDP_BACKWARD, StackPlace.BACKWARD, "train_ddp", "train.py:23 in train_ddp"),
        (stack_dumps.DATA_LOADER, StackPlace.DATA_LOADER, "train_loader", "train.py:46 in train_loader"),
        (stack_dumps.TORCH_SAVE, StackPlace.CHECKPOINT, "save_checkpoint", "train.py:51 in save_checkpoint"),
        (stack_dumps.EVALUATE, StackPlace.EVALUATION, "evaluate", "train.py:37 in evaluate"),
        (stack_dumps.FROM_NURSERY, StackPlace.EVALUATION, "evaluate", "train.py:6 in evaluate"),
        (stack_dumps.SLEEP, StackPlace.OTHER, "train_bcast", "train.py:31 in train_bcast"),
        (stack_dumps.WORK_WAIT, StackPlace.OTHER, "train_workwait", "train.py:70 in train_workwait"),
    ],
)
def test_places_of_real_dumps(text: str, place: StackPlace, operation: str, where: str) -> None:
    stack = read(text)
    assert (stack.place, stack.operation, stack.where) == (place, operation, where)


def test_a_collective_in_the_midst_of_a_checkpoint_is_both() -> None:
    assert read(stack_dumps.CHECKPOINT_GATHER).activity is TrainingPhase.CHECKPOINT
    assert read(stack_dumps.ALL_REDUCE).activity is None


OTHER = StackPlace.OTHER
TORCH = "/env/site-packages/torch"
USER = "/home/user/train.py"


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([(f"{TORCH}/utils/checkpoint.py", "checkpoint"), (USER, "forward")], OTHER),
        ([(f"{TORCH}/nn/modules/module.py", "eval"), (USER, "main")], OTHER),
        ([(f"{TORCH}/nn/modules/linear.py", "forward"), (f"{TORCH}/nn/parallel/distributed.py", "forward")], OTHER),
        ([(f"{TORCH}/nn/parallel/distributed.py", "_sync_buffers"), (USER, "main")], StackPlace.COLLECTIVE),
        ([(f"{TORCH}/distributed/checkpoint/filesystem.py", "_write_item"), (USER, "main")], StackPlace.CHECKPOINT),
        ([(f"{TORCH}/distributed/fsdp/_runtime_utils.py", "_unshard"), (USER, "main")], StackPlace.COLLECTIVE),
        ([(f"{TORCH}/cuda/__init__.py", "synchronize"), (USER, "main")], StackPlace.DEVICE),
        ([(f"{TORCH}/cuda/__init__.py", "_lazy_init"), (USER, "main")], OTHER),
        ([(USER, "evaluation_loop"), (USER, "main")], StackPlace.EVALUATION),
        ([(USER, "retrieval_step"), (USER, "main")], OTHER),
        ([(USER, "_save_sharded_checkpoint"), (USER, "main")], StackPlace.CHECKPOINT),
        ([(USER, "log_checkpoint_interval"), (USER, "main")], OTHER),
        ([(f"{TORCH}/utils/data/dataloader.py", "__next__"), (USER, "evaluate")], StackPlace.DATA_LOADER),
    ],
)
def test_names_that_mislead(frames: list[tuple[str, str]], place: StackPlace) -> None:
    assert made(*frames).place is place


def test_an_empty_stack_is_nowhere() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        classify([])
    assert stack_of(None) is None


def test_the_rank_outside_of_the_collective_is_the_suspect() -> None:
    stacks = {Rank(rank): read(stack_dumps.BROADCAST) for rank in (0, 1, 3)} | {Rank(2): read(stack_dumps.SLEEP)}
    assert outside_collective(stacks) == (2,)
    groups = group_stacks(stacks)
    assert [(group.ranks, group.place) for group in groups] == [
        ((0, 1, 3), StackPlace.COLLECTIVE),
        ((2,), StackPlace.OTHER),
    ]
    assert str(groups[1]) == "rank 2: other (train_bcast) at train.py:31 in train_bcast"


def test_without_a_collective_nobody_is_outside_and_in_it_neither() -> None:
    assert outside_collective({Rank(0): read(stack_dumps.SLEEP), Rank(1): read(stack_dumps.EVALUATE)}) == ()
    assert outside_collective({Rank(0): read(stack_dumps.BARRIER), Rank(1): read(stack_dumps.BROADCAST)}) == ()


def test_lines_of_one_function_are_one_place() -> None:
    other = read(stack_dumps.EVALUATE.replace("line 37", "line 38"))
    assert len(group_stacks({Rank(0): read(stack_dumps.EVALUATE), Rank(1): other})) == 1


def test_a_group_of_hundreds_is_named_in_short() -> None:
    group = group_stacks({Rank(rank): read(stack_dumps.BARRIER) for rank in range(300)})[0]
    assert len(group.ranks) == 300
    assert len(str(group)) < 120


def test_movement_is_a_difference_of_the_inner_frames() -> None:
    before = read(stack_dumps.EVALUATE)
    assert not has_moved(before, read(stack_dumps.EVALUATE))
    assert has_moved(before, read(stack_dumps.EVALUATE.replace("line 37", "line 36")))
