"""The engine on a GPU: against plain torch there, alone and through NCCL groups of one rank."""

import copy
import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import shoal
from shoal import _groups

pytestmark = pytest.mark.gpu

STEPS = 20
VOCABULARY = 61


class Block(nn.Module):
    """A norm and two linears of odd sizes, residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width + 1)
        self.down = nn.Linear(3 * width + 1, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    """Tied embedding and head, a frozen layer, one that is never used."""

    def __init__(self, width: int = 29, depth: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.unused = nn.Linear(7, 5)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embedding(tokens)
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.frozen(h)).flatten(0, 1)
        logits = logits.float() if logits.dtype == torch.bfloat16 else logits
        return nn.functional.cross_entropy(logits, tokens.roll(-1, 1).flatten())


def batch(step: int, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, VOCABULARY, (count, 8), generator=generator).cuda()


@pytest.fixture(params=["alone", "nccl"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A rank alone, or real NCCL groups of one rank: the path that several GPUs take."""
    if request.param == "nccl":
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29655")
        if not dist.is_initialized():
            dist.init_process_group("nccl", rank=0, world_size=1, timeout=timedelta(seconds=60))

        def groups(ranks: object, **_: object) -> _groups.Groups:
            return _groups.Groups(gather=dist.new_group([0]), reduce=dist.new_group([0]))

        monkeypatch.setattr(_groups, "make_groups", groups)
    return str(request.param)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_twenty_steps_equal_plain_torch(
    transport: str, stage: int, accumulation: int, clip: float, dtype: str
) -> None:
    torch.manual_seed(0)
    wide = torch.float64 if dtype == "float64" else torch.float32
    model = Model().to(wide)
    plain = copy.deepcopy(model).cuda()
    optimizer = torch.optim.AdamW(
        [p for p in plain.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.1
    )
    config = {
        "gradient_accumulation_steps": accumulation,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1}},
        "zero_optimization": {"stage": stage},
        "shoal": {"compute_dtype": dtype},
    }
    if clip > 0:
        config["gradient_clipping"] = clip
    with shoal.Engine(model, config=config) as engine:
        assert engine.device.type == "cuda"
        for step in range(STEPS):
            tokens = batch(step, 2 * accumulation)
            loss = plain(tokens)
            optimizer.zero_grad()
            loss.backward()
            if clip > 0:
                nn.utils.clip_grad_norm_(plain.parameters(), clip)
            optimizer.step()
            own = 0.0
            for part in tokens.chunk(accumulation):
                micro = engine(part)
                engine.backward(micro)
                engine.step()
                own += micro.item() / accumulation
            tolerance = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 0.05}[dtype]
            assert own == pytest.approx(loss.item(), rel=tolerance), (step, transport)
        if dtype == "float64":
            state = engine.full_state_dict()
            for name, value in plain.state_dict().items():
                torch.testing.assert_close(state[name], value.cpu(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("stage", [1, 3])
def test_resumed_run_is_bit_identical(transport: str, stage: int, tmp_path: object) -> None:
    def make() -> shoal.Engine:
        torch.manual_seed(0)
        return shoal.Engine(
            Model(),
            config={
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
                "zero_optimization": {"stage": stage},
                "shoal": {},
            },
        )

    def run(engine: shoal.Engine, first: int, last: int) -> list[float]:
        losses = []
        for step in range(first, last):
            loss = engine(batch(step, 4))
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        return losses

    torch.use_deterministic_algorithms(mode=True)
    try:
        with make() as engine:
            run(engine, 0, 4)
            engine.save(str(tmp_path))
            unbroken = run(engine, 4, 8)
        with make() as engine:
            engine.load(str(tmp_path))
            assert run(engine, 4, 8) == unbroken, transport
    finally:
        torch.use_deterministic_algorithms(mode=False)
