"""The native optimizers on flat buffers against torch.optim, and the sums against torch."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import shoal
from shoal import _core

NAMES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}
# Each rounding of torch's may differ from ours by one unit of the last place; a few add up.
TOLERANCE = {torch.float32: 8 * 2.0**-23, torch.float64: 1e-12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One optimizer, described for both sides."""

    kind: str
    torch_class: type[torch.optim.Optimizer]
    options: dict[str, Any]

    def native(self) -> _core.OptimizerHyper:
        """The native hyper-parameters."""
        hyper = _core.OptimizerHyper(self.kind)
        for name, value in self.options.items():
            if name == "betas":
                hyper.beta1, hyper.beta2 = value
            else:
                setattr(hyper, name, value)
        return hyper


ADAMW, ADAM, SGD = torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD
CASES = {
    "adamw": Case(kind="AdamW", torch_class=ADAMW, options={"lr": 1e-2, "weight_decay": 0.1}),
    "adamw-beta1": Case(
        kind="AdamW",
        torch_class=ADAMW,
        options={"lr": 3e-3, "betas": (0.3, 0.95), "eps": 1e-6, "weight_decay": 0.0},
    ),
    "adam": Case(
        kind="Adam",
        torch_class=ADAM,
        options={"lr": 1e-2, "betas": (0.0, 0.99), "weight_decay": 0.05},
    ),
    "sgd": Case(kind="SGD", torch_class=SGD, options={"lr": 0.1, "weight_decay": 0.01}),
    "sgd-momentum": Case(
        kind="SGD", torch_class=SGD, options={"lr": 0.1, "momentum": 0.9, "dampening": 0.25}
    ),
    "sgd-nesterov": Case(
        kind="SGD",
        torch_class=SGD,
        options={"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ),
}


class Shard:
    """Flat buffers of one parameter and their native update."""

    def __init__(self, case: Case, master: torch.Tensor, compute: torch.dtype | None) -> None:
        """Copies `master` [numel]; states start as zeros."""
        self.hyper = case.native()
        self.master = master.clone()
        self.states = [torch.zeros_like(master) for _ in self.hyper.state_names]
        self.compute = None if compute is None else torch.empty(master.shape, dtype=compute)

    def step(self, grad: torch.Tensor, *, step: int, grad_scale: float, threads: int = 2) -> None:
        """Update number `step` with gradients [numel] of any real float dtype."""
        addresses = {f"state{i}": state.data_ptr() for i, state in enumerate(self.states)}
        if self.compute is not None:
            addresses["compute"] = self.compute.data_ptr()
            addresses["compute_dtype"] = NAMES[self.compute.dtype]
        run = _core.OptimizerRange(
            grad.numel(),
            grad=grad.data_ptr(),
            grad_dtype=NAMES[grad.dtype],
            master=self.master.data_ptr(),
            master_dtype=NAMES[self.master.dtype],
            **addresses,
        )
        _core.optimizer_step(
            self.hyper,
            step=step,
            grad_scale=grad_scale,
            ranges=[run],
            executor=_core.Executor(threads),
        )


def assert_close(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Equal up to TOLERANCE relative to the element's size, or to a tenth of the largest's.

    The latter because an element near 0 may be the difference of two large ones.
    """
    scale = expected.abs().clamp(min=expected.abs().max().item() / 10)
    worst = ((found - expected).abs() / scale).max().item()
    assert worst <= TOLERANCE[expected.dtype], f"{what} differs by {worst:.1e} relative"


@pytest.mark.parametrize("master_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_each_update_is_torchs(name: str, master_dtype: torch.dtype) -> None:
    """Each of ten updates, from the same masters and states, as torch makes it."""
    case = CASES[name]
    generator = torch.Generator().manual_seed(1)
    shard = Shard(case, torch.randn(1003, generator=generator, dtype=master_dtype), None)
    parameter = torch.nn.Parameter(shard.master.clone())
    optimizer = case.torch_class([parameter], foreach=False, **case.options)
    for step in range(1, 11):
        grad = torch.randn(1003, generator=generator, dtype=master_dtype)
        parameter.grad = grad / 4
        optimizer.step()
        shard.step(grad, step=step, grad_scale=0.25)
        assert_close(shard.master, parameter.detach(), f"master of update {step}")
        state = optimizer.state[parameter]
        for native, key in zip(shard.states, shard.hyper.state_names, strict=True):
            assert_close(native, state[key], f"{key} of update {step}")
            native.copy_(state[key])
        shard.master.copy_(parameter.detach())


@pytest.mark.parametrize("name", CASES)
def test_twenty_float64_updates_stay_with_torch(name: str) -> None:
    """Differences do not build up: the engine's parity tests rely on it."""
    case = CASES[name]
    generator = torch.Generator().manual_seed(2)
    shard = Shard(case, torch.randn(257, generator=generator, dtype=torch.float64), None)
    parameter = torch.nn.Parameter(shard.master.clone())
    optimizer = case.torch_class([parameter], **case.options)
    for step in range(1, 21):
        parameter.grad = torch.randn(257, generator=generator, dtype=torch.float64)
        optimizer.step()
        shard.step(parameter.grad, step=step, grad_scale=1.0)
    assert (shard.master - parameter.detach()).abs().max() <= 1e-12


@pytest.mark.parametrize("compute_dtype", NAMES)
@pytest.mark.parametrize("grad_dtype", NAMES)
def test_gradients_and_copies_of_every_dtype(
    grad_dtype: torch.dtype, compute_dtype: torch.dtype
) -> None:
    """Gradients are read exactly, the copy is what torch's cast of the master gives."""
    case = CASES["adamw"]
    generator = torch.Generator().manual_seed(3)
    master = torch.randn(777, generator=generator) * 3
    grad = torch.randn(777, generator=generator).to(grad_dtype)
    shard = Shard(case, master, compute_dtype)
    shard.step(grad, step=1, grad_scale=0.5)
    reference = Shard(case, master, None)
    reference.step(grad.to(torch.float32), step=1, grad_scale=0.5)
    assert torch.equal(shard.master, reference.master)
    assert shard.compute is not None
    assert torch.equal(shard.compute, shard.master.to(compute_dtype))


def test_threads_change_no_bit() -> None:
    """One, two and three threads write the same masters and copies."""
    case = CASES["adamw"]
    generator = torch.Generator().manual_seed(4)
    master = torch.randn(100_003, generator=generator)
    grad = torch.randn(100_003, generator=generator).to(torch.bfloat16)
    shards = [Shard(case, master, torch.bfloat16) for _ in range(3)]
    for threads, shard in enumerate(shards, start=1):
        shard.step(grad, step=1, grad_scale=1.0, threads=threads)
    for shard in shards[1:]:
        assert torch.equal(shard.master, shards[0].master)
        assert shard.compute is not None and shards[0].compute is not None
        assert torch.equal(shard.compute, shards[0].compute)


def test_without_bias_correction_the_first_step_is_small() -> None:
    """bias_correction=False (DeepSpeed's option) leaves both moments uncorrected."""
    case = Case(kind="AdamW", torch_class=ADAMW, options={"lr": 1.0, "bias_correction": False})
    shard = Shard(case, torch.zeros(4, dtype=torch.float64), None)
    shard.step(torch.ones(4, dtype=torch.float64), step=1, grad_scale=1.0)
    expected = -0.1 / (0.001**0.5 + 1e-8)
    assert torch.allclose(shard.master, torch.full_like(shard.master, expected), rtol=1e-12)


@pytest.mark.parametrize("dtype", NAMES)
def test_sum_of_squares_is_the_squared_norm(dtype: torch.dtype) -> None:
    """Summed in float64 whatever the dtype; infinities show."""
    data = torch.randn(30_001, generator=torch.Generator().manual_seed(5)).to(dtype)
    arguments = {"dtype": NAMES[dtype], "numel": data.numel(), "executor": _core.Executor(2)}
    found = _core.sum_of_squares(data.data_ptr(), **arguments)
    assert found == pytest.approx(data.double().square().sum().item(), rel=1e-13)
    data[17] = float("inf")
    assert _core.sum_of_squares(data.data_ptr(), **arguments) == float("inf")


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dst_dtype", NAMES)
@pytest.mark.parametrize("pieces_dtype", NAMES)
def test_pieces_are_summed_in_order(
    pieces_dtype: torch.dtype, dst_dtype: torch.dtype, accumulate: bool
) -> None:
    """In float32, or float64 if one side is; rounded to the destination once."""
    generator = torch.Generator().manual_seed(6)
    pieces = [torch.randn(1031, generator=generator).to(pieces_dtype) for _ in range(3)]
    dst = torch.randn(1031, generator=generator).to(dst_dtype)
    wide = torch.float64 in (pieces_dtype, dst_dtype)
    expected = dst.to(torch.float64 if wide else torch.float32)
    if not accumulate:
        expected = torch.zeros_like(expected)
    for piece in pieces:
        expected = expected + piece.to(expected.dtype)
    _core.sum_pieces(
        [piece.data_ptr() for piece in pieces],
        pieces_dtype=NAMES[pieces_dtype],
        dst=dst.data_ptr(),
        dst_dtype=NAMES[dst_dtype],
        accumulate=accumulate,
        numel=1031,
        executor=_core.Executor(2),
    )
    assert torch.equal(dst, expected.to(dst_dtype))


@pytest.mark.parametrize("dst_dtype", NAMES)
@pytest.mark.parametrize("src_dtype", NAMES)
def test_conversions_are_torchs(src_dtype: torch.dtype, dst_dtype: torch.dtype) -> None:
    """Every pair of dtypes, with values that overflow, underflow and are not finite."""
    special = [0.0, -0.0, 1e-8, -6e-5, 65504.0, 65519.9, 65520.0, 1e38, 1e300, float("inf")]
    src = torch.cat(
        [
            torch.randn(501, generator=torch.Generator().manual_seed(7), dtype=torch.float64),
            torch.tensor([*special, float("nan")], dtype=torch.float64),
        ]
    ).to(src_dtype)
    dst = torch.empty(src.shape, dtype=dst_dtype)
    _core.convert_buffer(
        src.data_ptr(),
        src_dtype=NAMES[src_dtype],
        dst=dst.data_ptr(),
        dst_dtype=NAMES[dst_dtype],
        numel=src.numel(),
        executor=_core.Executor(1),
    )
    expected = src.to(dst_dtype)
    assert torch.equal(torch.isnan(dst), torch.isnan(expected))
    assert torch.equal(torch.nan_to_num(dst, 0.0), torch.nan_to_num(expected, 0.0))
    assert torch.equal(torch.signbit(dst[:-1]), torch.signbit(expected[:-1]))


def test_broken_arguments_are_named() -> None:
    """Operation, argument, value and rule; nothing is written."""
    shard = Shard(CASES["adamw"], torch.ones(8), None)
    with pytest.raises(
        shoal.InvalidArgumentError, match=r"\[optimizer step\] step is 0, must be >= 1"
    ):
        shard.step(torch.ones(8), step=0, grad_scale=1.0)
    shard.hyper.beta2 = 1.5
    with pytest.raises(ValueError, match=r"beta2 is 1.5, must be in \[0, 1\)"):
        shard.step(torch.ones(8), step=1, grad_scale=1.0)
    with pytest.raises(shoal.InvalidArgumentError, match='kind is "Lion", must be AdamW, Adam or'):
        _core.OptimizerHyper("Lion")
    assert torch.equal(shard.master, torch.ones(8))
