"""Training speed of a small GPT on two gloo ranks: Shoal's stages 0-3, DDP and FSDP2.

Every contender has its own copy of the demo's model in float32, AdamW, and takes the same batches;
a step is forward, backward and optimizer. Rounds are interleaved. The limit is a step of one rank
alone (plain torch, same micro-batch), which moves no byte.

JSON keys: `tokens_per_s_<contender>` (both ranks together) for plain, ddp, fsdp2, stage0 ...
stage3; `ratio_ddp_stage0` ... `ratio_ddp_stage2`, `ratio_fsdp2_stage3`, `ratio_deepspeed_stage3`
(null: absent), `pct_limit_stage0` ... `_stage3` (0-100, of the step of one rank alone), `losses`
(after the last round, by contender), `params`, `rounds`.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _common import ROOT, Sample, environment, finish, paired_ratio, parser, say, shown, table
from torch import Tensor

sys.path.insert(0, str(ROOT / "examples" / "demo"))
from model import GPT, ModelConfig

RANKS = 2
STEPS_PER_ROUND = 3
MICRO_BATCH = 4
LEARNING_RATE = 1e-3
CONFIG = ModelConfig(context=64, width=256, heads=4, layers=8)

Batch = tuple[Tensor, Tensor]
Step = Callable[[Batch], Tensor]


def make_model() -> GPT:
    """The model; weights are the same in every copy."""
    torch.manual_seed(0)
    return GPT(CONFIG)


def torch_step(model: torch.nn.Module) -> Step:
    """A step with torch's fused AdamW, the fastest that torch has."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(batch: Batch) -> Tensor:
        loss: Tensor = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def plain() -> Step:
    """One rank alone: what a step costs without any communication."""
    return torch_step(make_model())


def ddp() -> Step:
    """Torch's DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    return torch_step(DistributedDataParallel(make_model()))


def fsdp2() -> Step:
    """Torch's fully_shard, one group per block and one for the rest."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return torch_step(model)


def shoal(stage: int) -> Step:
    """Shoal at one ZeRO stage."""
    import shoal

    config = {
        "train_micro_batch_size_per_gpu": MICRO_BATCH,
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": LEARNING_RATE, "weight_decay": 0.01, "betas": [0.9, 0.999]},
        },
        "zero_optimization": {"stage": stage},
        "shoal": {"compute_dtype": "float32"},
    }
    engine = shoal.Engine(make_model(), config=config, mesh=shoal.Mesh(dp=RANKS))

    def step(batch: Batch) -> Tensor:
        loss: Tensor = engine(*batch)
        engine.backward(loss)
        engine.step()
        return loss

    return step


def deepspeed() -> Step:
    """DeepSpeed ZeRO-3 with torch's AdamW (no operator is compiled)."""
    import deepspeed

    rank = str(dist.get_rank())
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(RANKS)}  # it asks for them
    model = make_model()
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE),
        config={
            "train_micro_batch_size_per_gpu": MICRO_BATCH,
            "zero_optimization": {"stage": 3},
            "gradient_clipping": 0.0,
            "zero_allow_untested_optimizer": True,
        },
        dist_init_required=False,
    )

    def step(batch: Batch) -> Tensor:
        loss: Tensor = engine(*batch)
        engine.backward(loss)
        engine.step()
        return loss

    return step


def has_deepspeed() -> bool:
    """Whether this environment holds DeepSpeed (that of `make peers` does)."""
    import importlib.util

    return importlib.util.find_spec("deepspeed") is not None


def measure_rank(rounds: int) -> dict[str, Any]:
    """Runs on every rank: seconds per step by round, and last losses, by contender."""
    makers: dict[str, Callable[[], Step]] = {"plain": plain, "ddp": ddp, "fsdp2": fsdp2}
    makers |= {f"stage{stage}": lambda stage=stage: shoal(stage) for stage in range(4)}
    if has_deepspeed():
        makers["deepspeed"] = deepspeed
    steps = {name: make() for name, make in makers.items()}
    generator = torch.Generator().manual_seed(dist.get_rank())
    times: dict[str, list[float]] = {name: [] for name in steps}
    losses: dict[str, float] = {}
    for turn in range(rounds + 1):  # the first warms up
        tokens = torch.randint(256, (MICRO_BATCH, CONFIG.context + 1), generator=generator) // 8
        batch = (tokens[:, :-1], tokens[:, 1:])
        for name, step in steps.items():
            dist.barrier()
            began = time.perf_counter()
            for _ in range(STEPS_PER_ROUND):
                loss = step(batch)
            if turn > 0:
                times[name].append((time.perf_counter() - began) / STEPS_PER_ROUND)
            losses[name] = loss.item()
    return {
        "times": times,
        "losses": losses,
        "params": sum(param.numel() for param in make_model().parameters()),
    }


def run_rank(arguments: Any) -> None:  # noqa: ANN401 - argparse's namespace
    """A rank's process: leaves its figures in a file."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=arguments.rendezvous, rank=arguments.rank, world_size=RANKS
    )
    answer = measure_rank(arguments.rounds)
    if arguments.rank == 0:
        Path(arguments.answer).write_text(json.dumps(answer))
    dist.barrier()
    dist.destroy_process_group()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_ranks(python: str, *, rounds: int) -> dict[str, Any]:
    """Starts the ranks, waits for all, and reads what rank 0 found."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [python, str(Path(__file__).resolve()), "--rounds", str(rounds)]
        command += ["--rendezvous", f"tcp://127.0.0.1:{port}", "--answer", str(answer)]
        ranks = [
            subprocess.Popen([*command, "--rank", str(rank)], env=environment(), stdout=sys.stderr)
            for rank in range(RANKS)
        ]
        codes = [process.wait() for process in ranks]
        if any(codes):
            raise RuntimeError(f"the ranks ended with {codes}; their errors are above")
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def report(found: dict[str, Any], *, rounds: int) -> dict[str, Any]:
    """Writes the table; gives the JSON object."""
    times: dict[str, list[float]] = found["times"]
    samples = {name: Sample.of(values) for name, values in times.items()}
    tokens = RANKS * MICRO_BATCH * CONFIG.context
    result: dict[str, Any] = {}
    rows = []
    for name, sample in samples.items():
        result[f"tokens_per_s_{name}"] = round(tokens / sample.median, 1)
        limit = 100 * (paired_ratio(times["plain"], times[name]) or 0.0)
        rows.append(
            (
                name,
                shown(tokens / sample.median, 0),
                shown(1e3 * sample.median),
                shown(1e3 * sample.spread),
                shown(paired_ratio(times["ddp"], times[name]), 2),
                shown(paired_ratio(times["fsdp2"], times[name]), 2),
                shown(limit, 0),
                shown(found["losses"][name], 4),
            )
        )
        if name.startswith("stage"):
            result[f"pct_limit_{name}"] = round(limit, 1)
    if "deepspeed" not in samples:
        rows.append(("deepspeed", *["absent"] * 7))
    say(f"{found['params']:,} parameters, {RANKS} gloo ranks, {tokens} tokens per step")
    heads = ("contender", "tokens/s", "ms", "spread", "vs DDP", "vs FSDP2", "% limit", "loss")
    table(heads, rows)
    for stage in range(3):
        result[f"ratio_ddp_stage{stage}"] = paired_ratio(times["ddp"], times[f"stage{stage}"])
    result["ratio_fsdp2_stage3"] = paired_ratio(times["fsdp2"], times["stage3"])
    result["ratio_deepspeed_stage3"] = paired_ratio(times.get("deepspeed"), times["stage3"])
    return result | {"losses": found["losses"], "params": found["params"], "rounds": rounds}


def main() -> None:
    """Starts the ranks and reports; with --rank it is one of them."""
    flags = parser(__doc__ or "")
    flags.add_argument("--rank", type=int, help="used for the ranks' processes")
    flags.add_argument("--rendezvous", help="used for the ranks' processes")
    flags.add_argument("--answer", help="used for the ranks' processes")
    arguments = flags.parse_args()
    if arguments.rank is not None:
        run_rank(arguments)
        return
    peers = ROOT / ".venv-peers" / "bin" / "python"
    python = str(peers) if peers.exists() else sys.executable
    found = run_ranks(python, rounds=arguments.rounds)
    finish(report(found, rounds=arguments.rounds), as_json=arguments.json)


if __name__ == "__main__":
    main()
