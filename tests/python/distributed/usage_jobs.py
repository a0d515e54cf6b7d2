"""Jobs that train one model of usage_models.py with an engine and with plain PyTorch."""

import functools

import torch
import torch.distributed as dist
from distributed.usage_base import VOCABULARY, WIDTH, Usage
from distributed.usage_models import USAGES
from torch import Tensor, nn

import shoal

STEPS = 4
ROWS = 4
LR = 1e-2


def batch(usage: Usage, step: int, rank: int, micro: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * step + 10 * rank + micro)
    if usage.integers:
        return torch.randint(VOCABULARY, (ROWS, 3), generator=generator)
    return torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)


def make(usage: Usage) -> nn.Module:
    torch.manual_seed(3)
    model = usage.make()
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            tensor.data = tensor.data.double()
        elif tensor.is_complex():
            tensor.data = tensor.data.to(torch.complex128)
    return model


def train_plain(usage: Usage, *, world_size: int, accumulation: int) -> nn.Module:
    """The oracle: one process, the global batch."""
    model = make(usage)
    params = [param for param in model.parameters() if param.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=LR, weight_decay=0.1)
    share = 1.0 / (world_size * accumulation)

    def backward(loss: Tensor, **options: bool) -> None:
        (loss * share).backward(**options)

    for step in range(STEPS):
        for micro in range(accumulation):
            for rank in range(world_size):
                usage.run(model, backward, batch(usage, step, rank, micro))
        for param in params:
            if param.grad is not None and param.grad.is_sparse:
                param.grad = param.grad.to_dense()
        optimizer.step()
        optimizer.zero_grad()
    return model


def engine_config(stage: int, accumulation: int) -> dict[str, object]:
    return {
        "gradient_accumulation_steps": accumulation,
        "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": 0.1}},
        "zero_optimization": {"stage": stage},
        "shoal": {"compute_dtype": "float64", "master_dtype": "float64", "timeout_s": 30},
    }


def matches_plain_torch(*, name: str, stage: int, accumulation: int = 1) -> None:
    usage = USAGES[name]
    world_size = dist.get_world_size()
    plain = train_plain(usage, world_size=world_size, accumulation=accumulation)
    model = make(usage)
    engine = shoal.Engine(
        model,
        config=engine_config(stage, accumulation),
        mesh=shoal.Mesh(dp=world_size),
        units=usage.units,
    )
    for step in range(STEPS):
        for micro in range(accumulation):
            usage.run(
                engine,
                functools.partial(engine.backward),
                batch(usage, step, dist.get_rank(), micro),
            )
            engine.step()
    found = engine.full_state_dict()
    expected = plain.state_dict()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(
            found[key], value, rtol=1e-9, atol=1e-12, msg=lambda text, key=key: f"{key}: {text}"
        )
    engine.close()
