"""Small models that use modules, parameters and autograd in the ways that people's code does.

Each Usage trains in float64 on its share of a global batch; plain PyTorch on one process with the
whole batch is the oracle (test_usage.py). The docstring of a model says what is unusual about it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from distributed.usage_base import USAGES, VOCABULARY, WIDTH, Block, Forward, Stack, usage
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.utils.checkpoint import checkpoint


@usage()
class PlainStack(Stack):
    """Nothing unusual: what the others are measured against."""


class ViewBlock(Block):
    """Returns a view of what it computed."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).view(-1, WIDTH)


@usage()
class InPlaceOnView(Stack):
    """`h = block(x); h += x` where h is a view."""

    def __init__(self) -> None:
        super().__init__(ViewBlock)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            kept = h
            h = block(h)
            h += kept
        return self.last(h)


class InPlaceInputBlock(Block):
    """Changes its input in place."""

    def forward(self, x: Tensor) -> Tensor:
        x += 0.25
        return super().forward(x)


@usage()
class InPlaceOnInput(Stack):
    """A block changes its input; the caller then uses the changed tensor."""

    def __init__(self) -> None:
        super().__init__(InPlaceInputBlock)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x) * 1.0
        out = self.blocks[0](h)
        return self.last(out + h)


class TwoOutputsBlock(Block):
    """Returns two tensors of which the caller may use one."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = super().forward(x)
        return y, y.sum(-1, keepdim=True)


@usage()
class UnusedOutput(Stack):
    """One of two outputs is not used; the last block's other one is not used either."""

    def __init__(self) -> None:
        super().__init__(TwoOutputsBlock)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for i, block in enumerate(self.blocks):
            y, total = block(x)
            x = x + total if i % 2 else y
        return self.last(x)


class Pair(NamedTuple):
    main: Tensor
    extra: Tensor


@dataclasses.dataclass
class Result:
    main: Tensor
    parts: dict[str, list[Tensor]]
    note: str = "a result"


class PairBlock(Block):
    def forward(self, x: Tensor) -> Pair:  # type: ignore[override]
        return Pair(super().forward(x), x.cos())


class ResultBlock(Block):
    def forward(self, x: Pair, *, options: dict[str, Any]) -> Result:  # type: ignore[override]
        y = super().forward(x.main)
        return Result(y, {"a": [y.sin(), x.extra * options["gain"]]})


@usage()
class NestedInputsAndOutputs(nn.Module):
    """Named tuples, dataclasses, dicts and lists go in and out of units."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([PairBlock(), ResultBlock()])
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        pair = self.blocks[0](x)
        result = self.blocks[1](pair, options={"gain": pair.main.mean()})
        assert result.note == "a result"
        return self.last(result.main + result.parts["a"][0] * result.parts["a"][1])


@usage()
class CalledTwice(Stack):
    """A block is called three times, once inside another order."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks[0](self.blocks[1](self.blocks[0](self.first(x))))
        return self.last(self.blocks[2](self.blocks[0](x)))


class Recompute(Stack):
    """Checkpoints each block."""

    options: ClassVar[dict[str, Any]] = {"use_reentrant": False}

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return self.last(x)


usage()(type("RecomputeUnits", (Recompute,), {}))
usage()(type("RecomputeUnitsReentrant", (Recompute,), {"options": {"use_reentrant": True}}))
usage()(
    type(
        "RecomputeUnitsWithoutEarlyStop",
        (Recompute,),
        {"options": {"use_reentrant": False, "early_stop": False}},
    )
)


class InnerRecomputeBlock(Block):
    reentrant = False

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(super().forward, x, use_reentrant=self.reentrant)


class InnerReentrantBlock(InnerRecomputeBlock):
    reentrant = True


@usage()
def recompute_inside_units() -> nn.Module:
    """The checkpoint is inside the unit."""
    return Stack(InnerRecomputeBlock)


@usage()
def recompute_inside_units_reentrant() -> nn.Module:
    """The same, reentrant: an inner graph task runs the unit's backward."""
    return Stack(InnerReentrantBlock)


@usage()
class RecomputeSegments(Stack):
    """One checkpoint over several units, inside it another."""

    def forward(self, x: Tensor) -> Tensor:
        def inner(h: Tensor) -> Tensor:
            return self.blocks[2](self.blocks[1](h))

        def outer(h: Tensor) -> Tensor:
            return checkpoint(inner, self.blocks[0](h), use_reentrant=False)

        return self.last(checkpoint(outer, self.first(x), use_reentrant=False))


@usage()
class RecomputeSegmentsReentrant(Stack):
    """One reentrant checkpoint over several units."""

    def forward(self, x: Tensor) -> Tensor:
        def segment(h: Tensor) -> Tensor:
            return self.blocks[2](self.blocks[1](self.blocks[0](h)))

        return self.last(checkpoint(segment, self.first(x), use_reentrant=True))


@usage()
class NoGradPart(Stack):
    """Blocks that run without gradients, then with."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            hint = self.blocks[0](self.first(x))
        return self.last(self.blocks[1](self.blocks[0](x + hint.detach())))


@usage()
class Detached(Stack):
    """A block's output is detached: it gets no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(self.blocks[0](x) + self.blocks[1](x).detach())


@usage()
class DetachedWeight(Stack):
    """A unit's weight is used detached in its own forward, after its last gradient came."""

    class Block(Block):
        def forward(self, x: Tensor) -> Tensor:
            x = x @ (self.down.weight.detach() @ self.up.weight.detach())
            return super().forward(x)

    def __init__(self) -> None:
        super().__init__(self.Block)


def two_losses(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    y = call(x)
    backward(y.pow(2).mean(), retain_graph=True)
    backward(y.sin().mean())


@usage(run=two_losses)
def retain_graph() -> nn.Module:
    """Two backwards of one graph before the step."""
    return Stack()


def two_forwards(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    first, second = call(x), call(x.flip(0))
    backward(first.pow(2).mean())
    backward((second * second.detach().cos()).mean())


@usage(run=two_forwards)
def two_forwards_two_backwards() -> nn.Module:
    """Two forwards, then a backward of each."""
    return Stack()


def joint_loss(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    backward((call(x) * call(x.flip(0))).mean())


@usage(run=joint_loss)
def two_forwards_one_backward() -> nn.Module:
    """A loss over two calls (contrastive)."""
    return Stack()


def energy_and_forces(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    x = x.detach().requires_grad_(True)
    energy = call(x).sum()
    (forces,) = torch.autograd.grad(energy, x, create_graph=True)
    backward(energy.pow(2) * 1e-2 + forces.pow(2).mean())


@usage(run=energy_and_forces)
def double_backward() -> nn.Module:
    """C67: the loss holds the gradient of the output by the input."""
    return Stack()


def gradient_penalty_alone(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    x = x.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    backward((slope.norm(2, dim=-1) - 1).pow(2).mean())


@usage(run=gradient_penalty_alone)
def gradient_penalty() -> nn.Module:
    """C67: only the penalty is trained."""
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.Tanh(), nn.Linear(5, 1))


def input_gradient(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    x = x.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(call(x).pow(2).sum(), x)
    backward(call(x + slope.detach()).pow(2).mean())


@usage(run=input_gradient)
def adversarial_input() -> nn.Module:
    """A gradient by the input first, without gradients of parameters; then a step."""
    return Stack()


@usage()
class PartlyFrozen(Stack):
    """C15: frozen weights and trained low-rank pairs in one unit, checkpointed."""

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH).requires_grad_(False)
            self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
            self.a = nn.Linear(WIDTH, 2, bias=False)
            self.b = nn.Linear(2, WIDTH, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(x)
            return x + torch.tanh(self.base(x) + self.b(self.a(x)))

    reentrant: bool | None = None

    def __init__(self) -> None:
        super().__init__(self.Adapted)
        self.first.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.reentrant:
            x = x.requires_grad_()
        for block in self.blocks:
            recompute = self.reentrant is not None
            x = checkpoint(block, x, use_reentrant=self.reentrant) if recompute else block(x)
        return self.last(x)


usage()(type("PartlyFrozenRecomputed", (PartlyFrozen,), {"reentrant": False}))
usage()(type("PartlyFrozenRecomputedReentrant", (PartlyFrozen,), {"reentrant": True}))


@usage()
class FrozenUnits(Stack):
    """Whole units are frozen, between trained ones."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks[1].requires_grad_(False)
        self.first.requires_grad_(False)


@usage()
class TiedAcrossUnits(Stack):
    """C17: a weight is shared by two blocks and by a linear outside."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks[2].up.weight = self.blocks[0].up.weight
        self.first.bias = self.blocks[1].down.bias


@usage()
class SharedModule(Stack):
    """A module object is used in two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks[2].norm = self.blocks[0].norm


@usage()
class OddParameters(Stack):
    """C19, C21, C25: zero-size, 0-dim and transposed parameters, a channels-last convolution."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.empty = nn.Linear(WIDTH, 0)
            self.turned = nn.Parameter(torch.randn(4, WIDTH).t())
            self.temperature = nn.Parameter(torch.tensor(0.3))
            self.conv = nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last)

        def forward(self, x: Tensor) -> Tensor:
            image = x.view(-1, 1, 2, 3).expand(-1, 2, -1, -1)
            extra = self.conv(image).mean((1, 2, 3)).unsqueeze(1)
            y = x @ self.turned @ self.turned.t() * self.temperature.exp()
            return x + torch.tanh(y) + extra + self.empty(x).sum()

    def __init__(self) -> None:
        super().__init__(self.Odd)


def embedding_loss(call: Forward, backward: Callable[..., None], tokens: Tensor) -> None:
    backward(call(tokens).pow(2).mean())


@usage(integers=True)
class SparseGradients(nn.Module):
    """C61: embeddings with sparse gradients, one of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, sparse=True)
        self.bag = nn.EmbeddingBag(VOCABULARY, WIDTH, sparse=True, mode="sum")
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.embedding(tokens.flip(0))
        return self.last(x.mean(1) + self.bag(tokens))


@usage()
class OldWeightNorm(Stack):
    """C63: the hook form of weight_norm, inside a block and outside."""

    def __init__(self) -> None:
        super().__init__()
        nn.utils.weight_norm(self.blocks[0].up)
        nn.utils.weight_norm(self.last)


def count_hooks(call: Forward, backward: Callable[..., None], x: Tensor) -> None:
    backward(call(x).pow(2).mean())


@usage(run=count_hooks)
class UserHooks(Stack):
    """User hooks of every kind, beside ours."""

    def __init__(self) -> None:
        super().__init__()
        block = self.blocks[0]
        block.register_forward_pre_hook(lambda _, args: (args[0] * 1.5,))
        block.register_forward_hook(lambda _, __, output: output * 0.5)
        block.register_full_backward_pre_hook(lambda _, grads: (grads[0] * 2.0,))
        block.register_full_backward_hook(lambda _, grads, __: (grads[0] * 0.25,))
        block.up.weight.register_hook(lambda grad: grad * 3.0)
        self.blocks[1].register_forward_pre_hook(lambda _, args: (args[0] + 0.1,), prepend=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x.register_hook(lambda grad: grad * 0.5)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


@usage()
class Experts(Stack):
    """A mixture: experts inside one unit, chosen by row; some get no row."""

    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(WIDTH, 4)
            self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            weights = self.router(x).softmax(-1)
            best = weights.argmax(-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                rows = (best == i).nonzero()[:, 0]
                if len(rows):
                    out = out.index_add(0, rows, expert(x[rows]) * weights[rows, i : i + 1])
            return x + out

    def __init__(self) -> None:
        super().__init__(self.Mixture)


USAGES["Experts"] = dataclasses.replace(USAGES["Experts"], units=("Mixture",))


@usage()
class BatchNorm(Stack):
    """Buffers that a forward changes."""

    class Normed(Block):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(WIDTH, affine=True, momentum=None)

        def forward(self, x: Tensor) -> Tensor:
            self.norm.eval()
            return super().forward(x)

    def __init__(self) -> None:
        super().__init__(self.Normed)


@usage()
class NestedUnits(nn.Module):
    """A unit's module contains another unit's module (an encoder inside a wrapper)."""

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Block()
            self.mix = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return self.mix(self.inner(self.mix(x)))

    def __init__(self) -> None:
        super().__init__()
        self.outer = self.Outer()
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.outer(x))


USAGES["NestedUnits"] = dataclasses.replace(USAGES["NestedUnits"], units=("Outer", "Block"))


@usage()
class CustomFunction(Stack):
    """An autograd.Function that reads the weight in its backward through ctx.saved_tensors."""

    class Scaled(nn.Module):
        class Apply(torch.autograd.Function):
            @staticmethod
            def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor) -> Tensor:
                ctx.save_for_backward(x, weight)
                return x @ weight.t()

            @staticmethod
            def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor]:
                x, weight = ctx.saved_tensors
                return grad @ weight, grad.t() @ x

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.Apply.apply(x, self.weight))

    def __init__(self) -> None:
        super().__init__(self.Scaled)


@usage()
class LossInside(Stack):
    """The model returns a scalar loss whose last unit's output is the loss itself."""

    class Head(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).pow(2).mean()

    def __init__(self) -> None:
        super().__init__()
        self.last = self.Head(WIDTH, 3)
