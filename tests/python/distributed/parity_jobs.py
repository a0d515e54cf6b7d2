"""Jobs that train the parity model with an engine; they run on every rank."""

from typing import Any

import torch.distributed as dist
from distributed.parity_model import (
    BETAS,
    EPS,
    LR,
    STEPS,
    WEIGHT_DECAY,
    make_model,
    micro_batches,
)
from torch import nn

import shoal


def make_config(
    *,
    stage: int = 3,
    dtype: str = "float32",
    accumulation: int = 1,
    clip: float = 0.0,
    shoal_keys: dict[str, Any] | None = None,
    **more: object,
) -> dict[str, Any]:
    """A configuration in Shoal's own dialect with the optimizer of the oracle."""
    config: dict[str, Any] = {
        "gradient_accumulation_steps": accumulation,
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": LR,
                "betas": list(BETAS),
                "eps": EPS,
                "weight_decay": WEIGHT_DECAY,
            },
        },
        "zero_optimization": {"stage": stage},
        "shoal": {"compute_dtype": dtype, "timeout_s": 60} | (shoal_keys or {}),
    }
    if clip > 0:
        config["gradient_clipping"] = clip
    return config | more


def make_engine(
    model: nn.Module | None = None, *, recompute: str | None = None, **config: object
) -> shoal.Engine:
    """An engine over all ranks of the job."""
    if model is None:
        model = make_model(recompute=recompute)
        if config.get("dtype") == "float64":
            model.double()
    return shoal.Engine(
        model, config=make_config(**config), mesh=shoal.Mesh(dp=dist.get_world_size())
    )


def train_step(
    engine: shoal.Engine, step: int, *, accumulation: int = 1, use_all: bool = True
) -> float:
    """One optimizer step on this rank's part of the global batch; the mean loss of that part."""
    total = 0.0
    batches = micro_batches(
        step, rank=dist.get_rank(), world_size=dist.get_world_size(), accumulation=accumulation
    )
    for tokens, targets in batches:
        loss = engine(tokens, targets, use_all=use_all)
        engine.backward(loss)
        engine.step()
        total += loss.item() / accumulation
    return total


def train(
    *,
    steps: int = STEPS,
    accumulation: int = 1,
    skip_sometimes: bool = False,
    **options: object,
) -> dict[str, Any]:
    """Trains; gives losses of this rank, norms, learning rates, masters and the step counts."""
    engine = make_engine(accumulation=accumulation, **options)
    losses, norms, rates = [], [], []
    for step in range(steps):
        rates.append(engine.get_lr()[0])
        use_all = not (skip_sometimes and step % 3 == 1)
        losses.append(train_step(engine, step, accumulation=accumulation, use_all=use_all))
        norms.append(engine.grad_norm)
    result = {
        "losses": losses,
        "norms": norms,
        "rates": rates,
        "end": engine.full_master_state_dict(),
        "compute": engine.full_state_dict(),
        "global_step": engine.global_step,
        "skipped": engine.skipped_steps,
        "comm": engine.comm_counts(),
        "dtypes": sorted({str(p.dtype) for p in engine.module.parameters()}),
    }
    engine.close()
    return result
