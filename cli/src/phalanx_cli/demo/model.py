"""A small transformer over characters, its optimiser, and one data-parallel step, all bit-for-bit repeatable.

Written by hand on purpose: torch.optim and DistributedDataParallel import torch._dynamo at first use, which takes
seconds for four ranks on two cores and would be counted as recovery. All parameters are views of one flat tensor, so
that the gradient exchange is one all_gather and a checkpoint shard is one slice.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from phalanx_cli.demo.words import ALPHABET

CONTEXT = 24
"""Characters the model sees; most words are shorter, so it sees where the last ones ended."""
WIDTH = 64
HEADS = 4
LAYERS = 2
SHARDS = 4
"""Batches of one step, over all ranks."""
BATCH = 4
"""Sequences of one batch."""
LEARNING_RATE = 1e-3
BETAS = (0.9, 0.99)
EPSILON = 1e-8


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.feed_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Same shape in and out: batch, place, width."""
        batch, length, _ = x.shape
        mixed = self.mix(self.attention_norm(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed(self.feed_norm(x))  # type: ignore[no-any-return]


class Speller(nn.Module):
    """Predicts the next character."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(ALPHABET), WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next character at each place."""
        x = self.letters(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))  # type: ignore[no-any-return]


class Trainer:
    """Model, Adam's moments and the data of one rank. `weights`, `mean` and `square` are the whole state.

    A step is taken over `SHARDS` batches, whoever computes them: their gradients are gathered and summed in the order
    of the batches. So a gang that lost half of its ranks goes on with the same bits, only more slowly.
    """

    def __init__(self, tokens: list[int], *, seed: int, rank: int, world_size: int) -> None:
        """Raises ValueError when the batches cannot be dealt out evenly."""
        if SHARDS % world_size:
            raise ValueError(f"{SHARDS} batches a step cannot be dealt out evenly to {world_size} ranks")
        torch.manual_seed(seed)
        self._model = Speller()
        self._parameters = list(self._model.parameters())
        self.weights = torch.cat([p.detach().reshape(-1) for p in self._parameters])
        place = 0
        for parameter in self._parameters:
            size = parameter.numel()
            parameter.data = self.weights[place : place + size].view_as(parameter)
            place += size
        self.mean = torch.zeros_like(self.weights)
        self.square = torch.zeros_like(self.weights)
        self._tokens = torch.tensor(tokens)
        self._seed, self._world_size = seed, world_size
        own = SHARDS // world_size
        self._shards = range(rank * own, (rank + 1) * own)

    def batches(self, step: int) -> list[Tensor]:
        """The sequences of this rank at a step: functions of seed, step and place alone, so a replay sees the same."""
        return [self._batch(step, shard) for shard in self._shards]

    def _batch(self, step: int, shard: int) -> Tensor:
        generator = torch.Generator().manual_seed((self._seed * 1_000_003 + step) * 4_096 + shard)
        starts = torch.randint(len(self._tokens) - CONTEXT - 1, (BATCH, 1), generator=generator)
        return self._tokens[starts + torch.arange(CONTEXT + 1)]

    def step(self, step: int, batches: list[Tensor], *, vote: bool = False) -> tuple[float, bool]:
        """One step over all ranks. Steps count from 1.

        Returns:
            This rank's loss before the step, and whether any rank voted: the same answer on all of them.
        """
        losses, rows = zip(*(self._gradients(batch, vote=vote) for batch in batches), strict=True)
        mine = torch.stack(rows)
        gathered = [torch.empty_like(mine) for _ in range(self._world_size)]
        dist.all_gather(gathered, mine)
        whole = torch.cat(gathered)
        total = whole[0].clone()
        for row in whole[1:]:
            total += row
        self._adam(step, total[:-1] / SHARDS)
        return sum(losses) / len(losses), bool(total[-1] > 0)

    def _gradients(self, batch: Tensor, *, vote: bool) -> tuple[float, Tensor]:
        """Loss and gradients of one batch, and the vote behind them."""
        logits = self._model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        gradients = torch.autograd.grad(loss, self._parameters)
        return float(loss.detach()), torch.cat([*(g.reshape(-1) for g in gradients), torch.tensor([float(vote)])])

    def _adam(self, step: int, gradients: Tensor) -> None:
        self.mean.lerp_(gradients, 1 - BETAS[0])
        self.square.lerp_(gradients.square(), 1 - BETAS[1])
        scale = LEARNING_RATE / (1 - BETAS[0] ** step)
        root = (self.square / (1 - BETAS[1] ** step)).sqrt_().add_(EPSILON)
        self.weights.addcdiv_(self.mean, root, value=-scale)
