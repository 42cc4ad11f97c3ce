"""The demo's training, on one rank: a resumed run is the same run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from phalanx_cli.demo.model import Trainer
from phalanx_cli.demo.shards import checkpoint_folder, load_shards, save_shard
from phalanx_cli.demo.words import ALPHABET, as_tokens, read_words


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def trainer(seed: int = 1) -> Trainer:
    return Trainer(as_tokens(read_words()), seed=seed, rank=0, world_size=1)


def train(one: Trainer, first: int, last: int) -> list[float]:
    return [one.step(step, one.batches(step))[0] for step in range(first, last + 1)]


def state(of: Trainer) -> tuple[torch.Tensor, ...]:
    return of.weights, of.mean, of.square


def test_a_run_resumed_from_the_shards_of_all_ranks_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = trainer()
    losses = train(whole, 1, 12)
    assert losses[-1] < losses[0]

    broken = trainer()
    train(broken, 1, 6)
    folder = checkpoint_folder(tmp_path, 6, world_size=4)
    for rank in range(4):
        save_shard(folder, state(broken), rank=rank, world_size=4)
    resumed = trainer(seed=2)
    load_shards(folder, state(resumed))
    resumed._seed = 1  # the seed of the batches; the weights come from the checkpoint
    train(resumed, 7, 12)
    for ours, theirs in zip(state(whole), state(resumed), strict=True):
        assert torch.equal(ours, theirs)


def test_a_checkpoint_with_a_missing_shard_is_refused(tmp_path: Path) -> None:
    one = trainer()
    folder = checkpoint_folder(tmp_path, 20, world_size=4)
    for rank in (0, 1, 3):
        save_shard(folder, state(one), rank=rank, world_size=4)
    (folder / "shard_2_of_4.partial7").touch()  # rank 2 was killed while writing
    with pytest.raises(FileNotFoundError, match="shard_2_of_4"):
        load_shards(folder, state(one))


def test_a_character_that_the_model_does_not_know_is_an_error_of_the_script() -> None:
    one = trainer()
    batches = one.batches(1)
    batches[0][0, 0] = len(ALPHABET)
    with pytest.raises(IndexError, match="index out of range"):
        one.step(1, batches)


def test_the_end_is_voted_on_and_leaves_the_weights_alone() -> None:
    one, other = trainer(), trainer()
    assert one.step(1, one.batches(1), vote=True)[1] is True
    assert other.step(1, other.batches(1))[1] is False
    assert torch.equal(one.weights, other.weights)


def test_batches_that_cannot_be_dealt_out_evenly_are_refused() -> None:
    with pytest.raises(ValueError, match="4 batches a step cannot be dealt out evenly to 3 ranks"):
        Trainer([0] * 100, seed=1, rank=0, world_size=3)


def test_the_batches_of_a_step_are_the_same_however_many_ranks_share_them() -> None:
    def dealt(world_size: int) -> list[torch.Tensor]:
        tokens = as_tokens(read_words())
        ranks = [Trainer(tokens, seed=1, rank=rank, world_size=world_size) for rank in range(world_size)]
        return [batch for one in ranks for batch in one.batches(7)]

    for world_size in (2, 4):
        for whole, part in zip(dealt(1), dealt(world_size), strict=True):
            assert torch.equal(whole, part)
