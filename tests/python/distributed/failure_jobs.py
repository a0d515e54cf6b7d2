"""Jobs and a script in which a rank fails on purpose.

As a script: `failure_jobs.py die` trains two steps, then rank 1 kills itself in a forward.
"""

import os
import signal
import sys
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from distributed.parity_jobs import make_config, make_engine, train_step
from distributed.parity_model import make_model
from torch import nn

import shoal


def models_that_differ(*, how: str) -> str:
    """Both ranks are refused; gives the text of this rank's error."""
    model = make_model()
    if dist.get_rank() == 1:
        if how == "shape":
            model.blocks[1].up = nn.Linear(13, 8)
            model.blocks[1].down = nn.Linear(8, 13)
        elif how == "name":
            model.other = model.frozen
            del model.frozen
        elif how == "trainable":
            model.norm.bias.requires_grad_(False)
        elif how == "missing":
            model.never = nn.Identity()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises((ValueError, RuntimeError)) as caught:
        shoal.Engine(model, config=make_config(), mesh=shoal.Mesh(dp=dist.get_world_size()))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), f"the failed construction changed {name}"
    return str(caught.value)


def one_rank_stops(*, how: str, collective_timeout_s: float) -> dict[str, Any]:
    """Rank 1 dies or sleeps in a forward; gives how the other ranks' step ended, and when."""
    engine = make_engine(stage=3, shoal_keys={"timeout_s": collective_timeout_s})
    train_step(engine, 0)
    if dist.get_rank() == 1:

        def stop(module: nn.Module, args: object) -> None:
            if how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)

        engine.module.blocks[1].register_forward_pre_hook(stop)
    began = time.monotonic()
    with pytest.raises(shoal.ShoalError) as caught:
        for step in range(1, 3):
            train_step(engine, step)
    return {"error": str(caught.value), "seconds": time.monotonic() - began}


def main() -> None:
    """The script of test_failures: the error is not caught, so the process must end by itself."""
    engine = make_engine(stage=3, shoal_keys={"timeout_s": 20})
    for step in range(100):
        if step == 2 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        train_step(engine, step)


if __name__ == "__main__":
    if sys.argv[1:] != ["die"]:
        raise SystemExit(f"usage: {sys.argv[0]} die")
    dist.init_process_group("gloo")
    main()
