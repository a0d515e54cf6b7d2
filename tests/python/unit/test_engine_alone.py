"""An engine of one rank: what each key of the configuration does."""

import logging
from typing import Any

import pytest
import torch
from torch import nn

import shoal


def make_engine(stage: int = 3, **keys: Any) -> shoal.Engine:
    torch.manual_seed(0)
    own = {key: keys.pop(key) for key in ("compute_dtype", "non_finite", "debug") if key in keys}
    config = {
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
        "zero_optimization": {"stage": stage},
        "shoal": {"compute_dtype": "float32"} | own,
    } | keys
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    return shoal.Engine(model, config=config, device="cpu")


def train(engine: shoal.Engine, steps: int, *, scale: float = 1.0) -> list[float]:
    losses = []
    x = torch.linspace(-1, 1, 40).view(8, 5).to(next(engine.module.parameters()).dtype)
    for _ in range(steps):
        loss = (engine(x) - 1).square().mean() * scale
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


def test_steps_per_print_logs_every_nth_step(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="shoal.engine"), make_engine() as silent:
        train(silent, 4)
    assert not caplog.records
    with (
        caplog.at_level(logging.INFO, logger="shoal.engine"),
        make_engine(steps_per_print=2) as engine,
    ):
        train(engine, 5)
    assert [r.getMessage().split(":")[0] for r in caplog.records] == ["step 2", "step 4"]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_non_finite_step_is_skipped_and_counted(stage: int) -> None:
    with make_engine(stage) as engine:
        train(engine, 1)
        before = engine.full_state_dict()
        train(engine, 1, scale=float("nan"))
        assert (engine.skipped_steps, engine.global_step) == (1, 1)
        assert not engine.was_step_applied
        for name, value in engine.full_state_dict().items():
            assert torch.equal(value, before[name])
        train(engine, 1)
        assert engine.global_step == 2


def test_non_finite_step_raises_when_asked_to() -> None:
    engine = make_engine(non_finite="raise")
    with pytest.raises(shoal.ShoalError, match=r"gradient norm.*nothing was updated"):
        train(engine, 1, scale=float("inf"))
    assert engine.global_step == 0
    engine.close()


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_fp16_finds_a_loss_scale_and_learns(stage: int) -> None:
    with make_engine(stage, compute_dtype="float16") as engine:
        assert engine.loss_scale > 1
        losses = train(engine, 40)
        assert engine.skipped_steps + engine.global_step == len(losses)
        assert losses[-1] < 0.7 * losses[0]


def test_bare_backward_is_a_micro_batch_too() -> None:
    with make_engine() as one, make_engine() as two:
        expected = train(one, 3)
        x = torch.linspace(-1, 1, 40).view(8, 5)
        losses = []
        for _ in range(3):
            loss = (two(x) - 1).square().mean()
            loss.backward()
            two.step()
            losses.append(loss.item())
        assert losses == expected
