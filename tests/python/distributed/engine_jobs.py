"""Jobs that check what an engine does besides training; they run, and assert, on every rank."""

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from distributed.parity_jobs import make_config, make_engine, train_step
from distributed.parity_model import make_model, micro_batches
from torch import Tensor, nn

import shoal


def batch(step: int = 0) -> tuple[Tensor, Tensor]:
    """This rank's part of a step's global batch."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    return next(micro_batches(step, rank=rank, world_size=world_size, accumulation=1))


def assert_equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        torch.testing.assert_close(value, b[name], rtol=0, atol=0, msg=f"{name} differs")


def same_on_all_ranks(value: object) -> bool:
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return all(other == gathered[0] for other in gathered)


def raises(call: Callable[[], object], error: type[Exception], pattern: str) -> str:
    """Asserts that the call raises with that text; gives the text."""
    with pytest.raises(error, match=pattern) as caught:
        call()
    return str(caught.value)


def full_state_dict_is_the_model(*, stage: int) -> None:
    model = make_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    engine = make_engine(model, stage=stage)
    assert_equal(engine.full_state_dict(), before)
    train_step(engine, 0)
    after = engine.full_state_dict()
    assert not torch.equal(after["blocks.0.up.weight"], before["blocks.0.up.weight"])
    assert torch.equal(after["frozen.weight"], before["frozen.weight"])
    assert same_on_all_ranks({name: value.tolist() for name, value in after.items()})
    storages = [value.untyped_storage() for value in after.values()]
    for value, storage in zip(after.values(), storages, strict=True):
        assert storage.nbytes() == value.numel() * value.element_size(), "saving one saves more"
    plain = make_model()
    plain.load_state_dict(after)
    with torch.no_grad():
        assert engine(*batch()).item() == pytest.approx(plain(*batch()).item(), rel=1e-6)
    engine.close()


def sharded_parameter_refuses_access() -> None:
    engine = make_engine(stage=3)
    weight = engine.module.blocks[1].up.weight
    assert weight.shape == (7, 13)
    for access in (
        lambda: weight.sum().item(),
        lambda: weight.numpy(force=True),
        weight.clone,
        weight.tolist,
        lambda: torch.save(weight, "/dev/null"),
    ):
        raises(access, RuntimeError, r"blocks\.1\.up\.weight.*sharded.*unsharded")
    engine(*batch())
    raises(weight.clone, RuntimeError, "sharded")
    engine.close()


def unsharded_reads_and_keeps_writes(*, stage: int) -> None:
    model = make_model()
    before = model.state_dict()["blocks.0.up.weight"].clone()
    engine = make_engine(model, stage=stage)
    weight = engine.module.blocks[0].up.weight
    with engine.unsharded():
        torch.testing.assert_close(weight.detach(), before, rtol=0, atol=0)
        with torch.no_grad():
            weight.mul_(2.0)
            engine.module.embedding.weight.add_(1.0)
    full = engine.full_state_dict()
    torch.testing.assert_close(full["blocks.0.up.weight"], 2 * before, rtol=0, atol=0)
    torch.testing.assert_close(full["head.weight"], full["embedding.weight"], rtol=0, atol=0)
    masters = engine.full_master_state_dict()
    torch.testing.assert_close(masters["blocks.0.up.weight"], 2 * before, rtol=0, atol=0)
    plain = make_model()
    plain.load_state_dict(full)
    expected = plain(*batch()).item()
    assert engine(*batch()).item() == pytest.approx(expected, rel=1e-6)
    engine.close()


def gradient_is_the_mean_over_ranks(*, stage: int) -> None:
    """engine.grad(p) is the whole averaged gradient, before clipping."""
    engine = make_engine(stage=stage, dtype="float64")
    loss = engine(*batch())
    engine.backward(loss)
    plain = make_model().double()
    for rank in range(dist.get_world_size()):
        part = next(micro_batches(0, rank=rank, world_size=dist.get_world_size(), accumulation=1))
        (plain(*part) / dist.get_world_size()).backward()
    for (name, param), expected in zip(
        engine.module.named_parameters(), plain.parameters(), strict=True
    ):
        if expected.grad is not None and param.requires_grad:
            torch.testing.assert_close(
                engine.grad(param), expected.grad, rtol=1e-12, atol=1e-14, msg=f"{name} differs"
            )
    engine.step()
    engine.close()


def steps_are_counted_by_the_engine(*, stage: int) -> None:
    engine = make_engine(stage=stage, accumulation=3)
    applied, boundaries = [], []
    for step in range(2):
        for part in micro_batches(
            step, rank=dist.get_rank(), world_size=dist.get_world_size(), accumulation=3
        ):
            boundaries.append(engine.is_boundary)
            engine.backward(engine(*part))
            applied.append(engine.step())
    assert applied == [False, False, True] * 2
    assert boundaries == [False, False, True] * 2
    assert engine.global_step == 2
    engine.close()


def misuse_is_refused() -> None:
    engine = make_engine(stage=3)
    raises(engine.step, RuntimeError, r"(?i)step.*backward")
    logits = engine(*batch()).expand(2)
    raises(lambda: engine.backward(logits), (RuntimeError, ValueError), r"(?i)scalar")
    raises(
        lambda: make_engine(engine.module, stage=3), (RuntimeError, ValueError), r"(?i)owns|owned"
    )
    train_step(engine, 0)
    engine.close()
    raises(lambda: engine(*batch()), RuntimeError, r"(?i)closed")


class PlantedError(Exception):
    """Raised by user code in a forward or backward of these tests."""


class Fails(torch.autograd.Function):
    """The identity; its backward raises."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ANN401
        raise PlantedError("in backward")


def exception_leaves_a_usable_engine(*, stage: int, where: str) -> dict[str, Any]:
    """The same fault on all ranks, then training as if nothing had been."""
    engine = make_engine(stage=stage, dtype="float64")
    losses = [train_step(engine, 0)]

    def fault(module: nn.Module, args: object, output: Tensor) -> Tensor:
        if where == "forward":
            raise PlantedError("in forward")
        return Fails.apply(output)

    handle = engine.module.blocks[1].register_forward_hook(fault)
    for _ in range(2):
        with pytest.raises(PlantedError):
            engine.backward(engine(*batch(7)))
    handle.remove()
    losses += [train_step(engine, step) for step in range(1, 20)]
    masters = engine.full_master_state_dict()
    engine.close()
    return {"losses": losses, "end": masters}


def two_engines_do_not_meet(*, stages: tuple[int, int]) -> list[dict[str, Any]]:
    """Interleaved steps of two engines of different stage; each one's result."""
    engines = [
        make_engine(stage=stages[0], dtype="float64"),
        make_engine(stage=stages[1], dtype="float64", clip=0.35),
    ]
    losses: list[list[float]] = [[], []]
    for step in range(20):
        for index, engine in enumerate(engines):
            losses[index].append(train_step(engine, step))
    results = []
    for engine, own in zip(engines, losses, strict=True):
        results.append({"losses": own, "end": engine.full_master_state_dict()})
        engine.close()
    return results


def evaluation_between_steps(*, stage: int) -> dict[str, Any]:
    """Forwards under no_grad and inference_mode, in eval mode, between steps of training."""
    engine = make_engine(stage=stage, dtype="float64")
    losses = []
    for step in range(20):
        losses.append(train_step(engine, step))
        engine.module.eval()
        with torch.no_grad():
            first = engine(*batch(99)).item()
        with torch.inference_mode():
            second = engine(*batch(99)).item()
        engine.module.train()
        assert first == second
    masters = engine.full_master_state_dict()
    engine.close()
    return {"losses": losses, "end": masters}


def non_finite_step_is_skipped(*, stage: int, dtype: str) -> None:
    engine = make_engine(stage=stage, dtype=dtype)
    train_step(engine, 0)
    before = engine.full_master_state_dict()
    scale = float("inf") if dist.get_rank() == 1 else 1.0
    engine.backward(engine(*batch(1)) * scale)
    assert engine.step() is False
    assert engine.skipped_steps == 1
    assert_equal(engine.full_master_state_dict(), before)
    train_step(engine, 1)
    after = engine.full_master_state_dict()
    assert engine.skipped_steps == 1
    assert not torch.equal(after["blocks.0.up.weight"], before["blocks.0.up.weight"])
    assert all(value.isfinite().all() for value in after.values())
    engine.close()


def save_and_resume(*, stage: int, dtype: str, root: str) -> None:
    """Ten steps, a checkpoint, five more; a new engine loads it and repeats the five exactly."""
    schedule = {
        "type": "WarmupCosineLR",
        "params": {"total_num_steps": 15, "warmup_num_steps": 4},
    }
    options: dict[str, Any] = {"stage": stage, "dtype": dtype, "clip": 0.35, "scheduler": schedule}
    engine = make_engine(**options)
    for step in range(10):
        train_step(engine, step)
    engine.save(root)
    first = [(train_step(engine, step), engine.grad_norm, engine.lr) for step in range(10, 15)]
    first_end = engine.full_master_state_dict()
    engine.close()
    other = make_model(seed=5)
    engine = make_engine(other.double() if dtype == "float64" else other, **options)
    engine.load(root)
    assert engine.global_step == 10
    second = [(train_step(engine, step), engine.grad_norm, engine.lr) for step in range(10, 15)]
    assert second == first
    assert_equal(engine.full_master_state_dict(), first_end)
    engine.close()
    assert any(Path(root).iterdir())


def gathers_per_step(*, recompute: str | None) -> None:
    """Stage 3: a unit is gathered once per entry in the forward and once in the backward.

    Eight of the nine units run; the tied one (embedding and head) is entered twice. The eight with
    trained parameters are reduced once each, also the one that never runs (canonical order).
    """
    engine = make_engine(stage=3, recompute=recompute)
    for step in range(2):
        train_step(engine, step)
    assert len(engine.describe()["units"]) == 9
    engine.reset_comm_counts()
    train_step(engine, 2)
    counts = engine.comm_counts()
    assert counts["all_gather"]["count"] == 2 * (7 + 2)
    assert counts["reduce_scatter"]["count"] == 8
    assert counts["all_reduce"]["count"] == 1
    engine.close()


def traffic_per_step(*, stage: int, accumulation: int) -> dict[str, dict[str, int]]:
    """Counts of one step of a stack of four equal blocks, and the bytes of one block."""
    torch.manual_seed(0)
    engine = shoal.Engine(
        Wide(width=64, depth=4),
        config=make_config(stage=stage, accumulation=accumulation),
        mesh=shoal.Mesh(dp=dist.get_world_size()),
    )
    x = torch.randn(4, 64)
    for step in range(3):
        if step == 2:
            engine.reset_comm_counts()
        for _ in range(accumulation):
            engine.backward(engine(x))
            engine.step()
    with torch.no_grad():
        engine(x)  # what a step started for the next forward is finished and counted
    counts = engine.comm_counts()
    engine.close()
    return counts


class Wide(nn.Module):
    """Blocks large against everything else; for accounting of memory."""

    def __init__(self, *, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = torch.tanh(block(x))
        return x.float().square().mean()


def tensor_bytes() -> int:
    """Bytes of all distinct storages that Python can see and that hold data."""
    gc.collect()
    seen: dict[int, int] = {}
    for thing in gc.get_objects():
        if isinstance(thing, Tensor):
            storage = thing.untyped_storage()
            seen[storage._cdata] = storage.nbytes()
    return sum(seen.values())


def resident_bytes() -> int:
    """This process's resident memory that belongs to no file, from the kernel."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    assert found is not None
    return int(found.group(1)) * 1024


def memory_is_what_the_plan_says(*, stage: int, accumulation: int) -> dict[str, Any]:
    """Trains a model of 38 M parameters; gives the engine's figures and the kernel's."""
    width, depth = 1536, 16
    torch.manual_seed(0)
    with torch.device("meta"):
        num_params = sum(p.numel() for p in Wide(width=width, depth=depth).parameters())
    gc.collect()
    start = resident_bytes()
    model = Wide(width=width, depth=depth).bfloat16()
    engine = shoal.Engine(
        model,
        config=make_config(stage=stage, dtype="bfloat16", accumulation=accumulation),
        mesh=shoal.Mesh(dp=dist.get_world_size()),
    )
    x = torch.randn(4, width).bfloat16()
    for _ in range(2 * accumulation):
        engine.backward(engine(x))
        engine.step()
    result = {
        "params": num_params,
        "memory": engine.memory(),
        "describe": engine.describe(),
        "resident": resident_bytes() - start,
    }
    engine.close()
    return result
