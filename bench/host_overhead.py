"""Host time per unit of a sharded forward and backward, above that of plain torch.

32 small blocks on the CPU, stage 3 of Shoal, FSDP2 and (where `make peers` was run) DeepSpeed
ZeRO-3, all in torch's fake process group of 8 ranks: nothing is sent, so what is measured is
bookkeeping and the copies of small tensors. Timed: forward and backward; not the optimizer.

JSON keys: `plain_us` (per block, plain torch), `shoal_us`, `fsdp2_us`, `deepspeed_us` (per block,
plain torch's time subtracted), `ratio_fsdp2`, `ratio_deepspeed`, `units`, `rounds`, `compiled`. No
losses: what the fake group gathers is not the model's weights.
"""

import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _common import Sample, finish, measured_by_peer, parser, ratio, say, shown, table
from torch import Tensor, nn
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

BLOCKS = 32
WIDTH = 32
RANKS = 8
STEPS_PER_ROUND = 10


class Block(nn.Module):
    """A norm and two linears, residual."""

    def __init__(self) -> None:
        """Makes the three layers."""
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """[N, WIDTH] to [N, WIDTH]."""
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Blocks, and nothing else that has parameters."""

    def __init__(self) -> None:
        """Makes the blocks; weights are the same in every instance."""
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        """A scalar loss."""
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


@dataclass(frozen=True, slots=True)
class Contender:
    """`step` is timed; `clean` puts the gradients away, untimed."""

    step: Callable[[], Tensor]
    clean: Callable[[], None]


def drop_gradients(model: nn.Module) -> None:
    """As optimizer.zero_grad() does."""
    for param in model.parameters():
        param.grad = None


def make_stack(*, compiled: bool) -> Stack:
    """The model, its blocks compiled if asked to."""
    model = Stack()
    if compiled:
        for block in model.blocks:
            block.compile()
    return model


def plain(x: Tensor, *, compiled: bool) -> Contender:
    """Torch without any sharding."""
    model = make_stack(compiled=compiled)

    def step() -> Tensor:
        loss: Tensor = model(x)
        loss.backward()
        return loss

    return Contender(step, lambda: drop_gradients(model))


def fsdp2(x: Tensor, *, compiled: bool) -> Contender:
    """Torch's fully_shard, one group per block."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = make_stack(compiled=compiled)
    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)

    def step() -> Tensor:
        loss: Tensor = model(x)
        loss.backward()
        return loss

    return Contender(step, lambda: drop_gradients(model))


def shoal(x: Tensor, *, compiled: bool) -> Contender:
    """Shoal at stage 3; its step() runs untimed, as the others' optimizer does."""
    import shoal

    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.0, "weight_decay": 0.0}},
        "zero_optimization": {"stage": 3},
        "shoal": {"compute_dtype": "float32"},
    }
    engine = shoal.Engine(make_stack(compiled=compiled), config=config, mesh=shoal.Mesh(dp=RANKS))

    def step() -> Tensor:
        loss: Tensor = engine(x)
        engine.backward(loss)
        return loss

    return Contender(step, lambda: bool(engine.step()) and None)


def deepspeed(x: Tensor, *, compiled: bool) -> Contender:
    """DeepSpeed ZeRO-3 with a torch optimizer (no operator is compiled)."""
    import deepspeed

    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(RANKS)}  # it asks for them
    model = make_stack(compiled=compiled)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        config=config,
        dist_init_required=False,
    )

    def step() -> Tensor:
        loss: Tensor = engine(x)
        engine.backward(loss)
        return loss

    return Contender(step, engine.step)


def measure(contenders: dict[str, Contender], *, rounds: int) -> dict[str, Sample]:
    """Microseconds per block by contender; rounds are interleaved."""
    for contender in contenders.values():
        for _ in range(5):
            contender.step()
            contender.clean()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for name, contender in contenders.items():
            for _ in range(STEPS_PER_ROUND):
                began = time.perf_counter()
                contender.step()
                times[name].append((time.perf_counter() - began) / BLOCKS * 1e6)
                contender.clean()
    gc.enable()
    return {name: Sample.of(values) for name, values in times.items()}


def report(samples: dict[str, Sample], peer: dict[str, Any] | None) -> dict[str, Any]:
    """Writes the table; gives the JSON object without its settings."""
    base = samples["plain"].median
    own = samples["shoal"].median - base
    figures: dict[str, float | None] = {
        "shoal": own,
        "fsdp2": samples["fsdp2"].median - base,
        "deepspeed": None if peer is None else peer["us"],
    }
    say(f"host time per block, microseconds; plain torch itself takes {base:.1f}")
    rows = []
    for name, value in figures.items():
        spread = (
            samples[name].spread if name in samples else None if peer is None else peer["spread"]
        )
        rows.append((name, shown(value), shown(spread), shown(ratio(value, own), 2)))
    table(("contender", "over plain", "spread", "ratio"), rows)
    return {
        "plain_us": round(base, 2),
        "shoal_us": round(own, 2),
        "fsdp2_us": round(samples["fsdp2"].median - base, 2),
        "deepspeed_us": None if peer is None else round(peer["us"], 2),
        "ratio_fsdp2": ratio(figures["fsdp2"], own),
        "ratio_deepspeed": ratio(figures["deepspeed"], own),
    }


def main() -> None:
    """Measures and reports; as the peers' child it measures DeepSpeed only."""
    flags = parser(__doc__ or "")
    flags.add_argument("--compile", action="store_true", help="blocks through torch.compile")
    flags.add_argument("--only-deepspeed", action="store_true", help="used for the peers' process")
    arguments = flags.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(1))
    makers = {"plain": plain} | (
        {"deepspeed": deepspeed} if arguments.only_deepspeed else {"shoal": shoal, "fsdp2": fsdp2}
    )
    contenders = {name: make(x, compiled=arguments.compile) for name, make in makers.items()}
    samples = measure(contenders, rounds=arguments.rounds)
    if arguments.only_deepspeed:
        over = samples["deepspeed"].median - samples["plain"].median
        answer = {
            "us": over,
            "spread": samples["deepspeed"].spread,
        }
        finish(answer, as_json=True)
        return
    child = ["--only-deepspeed", "--rounds", str(arguments.rounds)]
    child += ["--compile"] if arguments.compile else []
    peer = measured_by_peer(str(Path(sys.argv[0]).resolve()), *child)
    settings = {"units": BLOCKS, "rounds": arguments.rounds, "compiled": arguments.compile}
    finish(report(samples, peer) | settings, as_json=arguments.json)


if __name__ == "__main__":
    main()
