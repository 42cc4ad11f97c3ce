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
    return [one.step(step, one.batch(step)) for step in range(first, last + 1)]


def state(of: Trainer) -> tuple[torch.Tensor, ...]:
    return of.weights, of.mean, of.square


def test_a_run_resumed_from_the_shards_of_all_ranks_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = trainer()
    losses = train(whole, 1, 12)
    assert losses[-1] < losses[0]

    broken = trainer()
    train(broken, 1, 6)
    folder = checkpoint_folder(tmp_path, 6)
    for rank in range(4):
        save_shard(folder, state(broken), rank=rank, world_size=4)
    resumed = trainer(seed=2)
    load_shards(folder, state(resumed), world_size=4)
    resumed._seed = 1  # the seed of the batches; the weights come from the checkpoint
    train(resumed, 7, 12)
    for ours, theirs in zip(state(whole), state(resumed), strict=True):
        assert torch.equal(ours, theirs)


def test_a_checkpoint_with_a_missing_shard_is_refused(tmp_path: Path) -> None:
    one = trainer()
    for rank in (0, 1, 3):
        save_shard(tmp_path, state(one), rank=rank, world_size=4)
    (tmp_path / "shard_2_of_4.partial7").touch()  # rank 2 was killed while writing
    with pytest.raises(FileNotFoundError, match="shard_2_of_4"):
        load_shards(tmp_path, state(one), world_size=4)


def test_a_character_that_the_model_does_not_know_is_an_error_of_the_script() -> None:
    one = trainer()
    batch = one.batch(1)
    batch[0, 0] = len(ALPHABET)
    with pytest.raises(IndexError, match="index out of range"):
        one.step(1, batch)
