"""The loss curves of the scripts in examples/, computed in one process without Phalanx and without torch.distributed.

What a run with faults is held against: a mistake in the recovery cannot be in here, too.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

Losses = dict[tuple[int, int], float]
"""By rank and step."""


def linear_losses(steps: int, *, world_size: int) -> Losses:
    """Of log_rules.py and in_process.py."""
    torch.manual_seed(0)
    model = nn.Linear(32, 1)
    return _losses(model, model.parameters(), _plain_descent, steps=steps, world_size=world_size)


def ddp_losses(steps: int, *, world_size: int) -> Losses:
    """Of ddp_torchrun.py."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def update(parameters: list[nn.Parameter], gradients: list[Tensor]) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()

    return _losses(model, model.parameters(), update, steps=steps, world_size=world_size)


def _plain_descent(parameters: list[nn.Parameter], gradients: list[Tensor]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.data.sub_(gradient, alpha=0.01)


def _losses(
    model: nn.Module,
    parameters: Iterable[nn.Parameter],
    update: Callable[[list[nn.Parameter], list[Tensor]], None],
    *,
    steps: int,
    world_size: int,
) -> Losses:
    """Every rank's loss before each step; gradients are the mean over the ranks."""
    listed, found = list(parameters), {}
    for step in range(1, steps + 1):
        gradients = [torch.zeros_like(parameter) for parameter in listed]
        for rank in range(world_size):
            inputs = torch.randn(16, 32, generator=torch.Generator().manual_seed(step * 1000 + rank))
            loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
            found[rank, step] = loss.item()
            for total, part in zip(gradients, torch.autograd.grad(loss, listed), strict=True):
                total += part / world_size
        update(listed, gradients)
    return found
