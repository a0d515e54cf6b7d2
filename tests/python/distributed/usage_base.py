"""What usage_models.py is made of: the registry of usages, a block and a stack of blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 6
VOCABULARY = 11

Forward = Callable[..., Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usage:
    """How one kind of user code runs a micro-batch."""

    make: Callable[[], nn.Module]
    # Runs forward and backward of one micro-batch; `call` is the model or the engine, `backward`
    # what propagates a loss.
    run: Callable[[Forward, Callable[..., None], Tensor], None]
    integers: bool = False  # the batch holds token ids
    stages: tuple[int, ...] = (0, 1, 2, 3)
    units: tuple[str, ...] | None = None


USAGES: dict[str, Usage] = {}


def mean_loss(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    backward(call(x).pow(2).mean())


def usage(
    *,
    run: Callable[[Forward, Callable[..., None], Tensor], None] = mean_loss,
    integers: bool = False,
    stages: tuple[int, ...] = (0, 1, 2, 3),
    units: tuple[str, ...] | None = None,
) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """Registers a model under the name of its class or function."""

    def register(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        USAGES[make.__name__] = Usage(
            make=make, run=run, integers=integers, stages=stages, units=units
        )
        return make

    return register


class Block(nn.Module):
    """Two linears, one of them odd-sized, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 7)
        self.down = nn.Linear(7, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Stack(nn.Module):
    """Blocks in a ModuleList between two linears."""

    def __init__(self, block: type[nn.Module] = Block, count: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(block() for _ in range(count))
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)
