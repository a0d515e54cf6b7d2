"""A small model with everything that sharding may get wrong, its data, and its plain trainers.

In it: odd sizes, a 0-dim parameter, an embedding tied to the head, a frozen module, a frozen bias
inside a block, parameters that are never used, and a module that is used in some steps only.
Shapes: B samples, T tokens, D width, V vocabulary.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCABULARY = 23
WIDTH = 13
LENGTH = 5
GLOBAL_BATCH = 36
STEPS = 20
LR = 3e-3
BETAS = (0.9, 0.95)
EPS = 1e-8
WEIGHT_DECAY = 0.1
CLIP = 0.35  # below most norms of this model, so that it acts


class Block(nn.Module):
    """A residual MLP with a norm; [B, T, D] to [B, T, D]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, hidden)
        self.down = nn.Linear(hidden, WIDTH)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return x_BTD + self.down(functional.gelu(self.up(self.norm(x_BTD))))


class ParityModel(nn.Module):
    """See the head of the file. `recompute`: None, "reentrant" or "non_reentrant" checkpointing."""

    def __init__(self, *, recompute: str | None = None) -> None:
        super().__init__()
        self.recompute = recompute
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(hidden) for hidden in (29, 7, 31))
        self.blocks[1].down.bias.requires_grad_(False)
        self.frozen = nn.Linear(WIDTH, WIDTH)
        self.frozen.requires_grad_(False)
        self.sometimes = nn.Linear(WIDTH, WIDTH)
        self.never = nn.Linear(7, 3)
        self.scale = nn.Parameter(torch.tensor(1.25))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor, *, use_all: bool = True) -> Tensor:
        """The mean cross-entropy, computed in at least float32."""
        x_BTD = self.embedding(tokens_BT) * self.scale
        for block in self.blocks:
            if self.recompute is None:
                x_BTD = block(x_BTD)
            else:
                reentrant = self.recompute == "reentrant"
                x_BTD = checkpoint(block, x_BTD, use_reentrant=reentrant)
        x_BTD = x_BTD + torch.tanh(self.frozen(x_BTD))
        if use_all:
            x_BTD = x_BTD + 0.5 * torch.tanh(self.sometimes(x_BTD))
        logits = self.head(self.norm(x_BTD)).flatten(0, 1)
        wide = torch.promote_types(logits.dtype, torch.float32)
        return functional.cross_entropy(logits.to(wide), targets_BT.flatten())


def make_model(*, recompute: str | None = None, seed: int = 0) -> ParityModel:
    """The model with weights that depend on the seed only, float32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ParityModel(recompute=recompute)
        with torch.no_grad():
            model.embedding.weight.mul_(0.3)
    return model


def global_batch(step: int) -> tuple[Tensor, Tensor]:
    """Tokens and targets of a step, int64 [GLOBAL_BATCH, T] each; targets follow from tokens."""
    generator = torch.Generator().manual_seed(1000 + step)
    tokens = torch.randint(VOCABULARY, (GLOBAL_BATCH, LENGTH), generator=generator)
    noise = torch.randint(3, tokens.shape, generator=generator)
    return tokens, (tokens * 5 + noise) % VOCABULARY


def micro_batches(
    step: int, *, rank: int, world_size: int, accumulation: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """This rank's micro-batches of the step's global batch: equal parts, in order."""
    tokens, targets = global_batch(step)
    parts = world_size * accumulation
    pairs = list(zip(tokens.chunk(parts), targets.chunk(parts), strict=True))
    yield from pairs[rank * accumulation : (rank + 1) * accumulation]


@dataclass(slots=True)
class Run:
    """What a training run leaves: per step the mean loss and the norm before clipping."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    start: dict[str, Tensor] = field(default_factory=dict)
    end: dict[str, Tensor] = field(default_factory=dict)


def train_plain(
    *,
    dtype: torch.dtype,
    clip: float,
    uses_all: Callable[[int], bool] = lambda step: True,
    lr_at: Callable[[int], float] = lambda step: LR,
    splits: int = 1,
    shuffle_seed: int | None = None,
    steps: int = STEPS,
) -> Run:
    """The oracle: one process, torch.optim.AdamW, the whole global batch per step.

    bfloat16 keeps float32 masters and sums gradients of `splits` parts in float32; the order of the
    samples is shuffled if a seed is given.
    """
    model = make_model().to(dtype)
    wide = torch.promote_types(dtype, torch.float32)
    trained = [p for p in model.parameters() if p.requires_grad]
    masters = [p.detach().to(wide).clone().requires_grad_() for p in trained]
    if dtype != torch.float64:  # masters start from the float32 model, as the engine's do
        exact = [p for p in make_model().parameters() if p.requires_grad]
        masters = [p.detach().to(wide).clone().requires_grad_() for p in exact]
    optimizer = torch.optim.AdamW(
        masters, lr=LR, betas=BETAS, eps=EPS, weight_decay=WEIGHT_DECAY, foreach=False
    )
    run = Run(start=_masters_by_name(model, masters))
    generator = None if shuffle_seed is None else torch.Generator().manual_seed(shuffle_seed)
    for step in range(steps):
        tokens, targets = global_batch(step)
        if generator is not None:
            order = torch.randperm(GLOBAL_BATCH, generator=generator)
            tokens, targets = tokens[order], targets[order]
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part in zip(tokens.chunk(splits), targets.chunk(splits), strict=True):
            loss = model(*part, use_all=uses_all(step))
            loss.backward()
            total += loss.item() / splits
            for param, master in zip(trained, masters, strict=True):
                if param.grad is not None:
                    grad = param.grad.to(wide) / splits
                    master.grad = grad if master.grad is None else master.grad + grad
                param.grad = None
        run.losses.append(total)
        norm = torch.nn.utils.clip_grad_norm_(masters, clip if clip > 0 else float("inf"))
        run.norms.append(norm.item())
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step)
        optimizer.step()
        with torch.no_grad():
            for param, master in zip(trained, masters, strict=True):
                param.copy_(master)
    run.end = _masters_by_name(model, masters)
    return run


def _masters_by_name(model: nn.Module, masters: list[Tensor]) -> dict[str, Tensor]:
    names = [name for name, param in model.named_parameters() if param.requires_grad]
    return {name: master.detach().clone() for name, master in zip(names, masters, strict=True)}
