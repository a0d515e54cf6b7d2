"""What each rank of the demo runs: train, save half-way or resume, evaluate, sample.

Started by run.py under torchrun. Everything about sharding is in the lines that mention the engine;
the model (model.py) and the text (data.py) know nothing of it.
"""

import argparse
import contextlib
import json
import math
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from data import Corpus, evaluation_windows, prepare
from model import GPT, ModelConfig
from plan import Plan
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor

import shoal


class Reporter:
    """Metrics file and progress of rank 0; the other ranks' does nothing."""

    def __init__(self, folder: Path, plan: Plan, *, active: bool) -> None:
        """`folder` takes metrics.jsonl, which is appended to."""
        self._active = active
        self._plan = plan
        self._console = Console(highlight=False)
        self._metrics = (folder / "metrics.jsonl").open("a") if active else None
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    @contextlib.contextmanager
    def showing(self, start: int) -> Iterator[None]:
        """The progress bar is on the screen inside, beginning at step `start`."""
        if not (self._active and self._console.is_terminal):
            yield
            return
        columns = (
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console) as self._progress:
            self._task = self._progress.add_task("", total=self._plan.steps, completed=start)
            yield

    def step(self, record: dict[str, Any]) -> None:
        """One step's metrics, to the file and to the screen."""
        if self._metrics is None:
            return
        self._metrics.write(json.dumps(record) + "\n")
        self._metrics.flush()
        text = (
            f"loss {record['loss']:.3f}  {record['tokens_per_s']:,.0f} tokens/s  "
            f"{record['mem_bytes'] / 1e6:,.0f} MB"
        )
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=record["step"], description=text)
        elif record["step"] % max(1, self._plan.steps // 10) == 0:
            self._console.print(f"step {record['step']}/{self._plan.steps}  {text}")

    def say(self, text: str) -> None:
        """A line for people, from rank 0."""
        if self._active:
            self._console.print(text)


def peak_bytes(device: torch.device) -> int:
    """The most memory this rank has used: of its accelerator, or resident on the CPU."""
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return torch.accelerator.max_memory_allocated(device)


def micro_batch(
    corpus: Corpus, plan: Plan, *, step: int, micro: int, rank: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Inputs and targets, int64 [micro_batch, context] each; a function of its arguments only."""
    text = corpus.train()
    random = np.random.default_rng([plan.seed, step, micro, rank])
    starts = random.integers(0, text.size - plan.context - 1, plan.micro_batch)
    window = text[starts[:, None] + np.arange(plan.context + 1)]
    tokens = torch.from_numpy(window.astype(np.int64)).to(device)
    return tokens[:, :-1], tokens[:, 1:]


def train(
    engine: shoal.Engine, corpus: Corpus, plan: Plan, reporter: Reporter, *, stop: int
) -> float:
    """Steps until `stop`; gives the seconds that took."""
    began = time.perf_counter()
    with reporter.showing(engine.global_step + engine.skipped_steps):
        for step in range(engine.global_step + engine.skipped_steps, stop):
            step_began = time.perf_counter()
            lr, total = engine.lr, torch.zeros((), device=engine.device)
            for micro in range(plan.accumulation):
                inputs, targets = micro_batch(
                    corpus, plan, step=step, micro=micro, rank=engine.rank, device=engine.device
                )
                loss = engine(inputs, targets)
                engine.backward(loss)
                engine.step()
                total += loss.detach() / plan.accumulation
            reporter.step(
                {
                    "step": step + 1,
                    "loss": total.item(),
                    "lr": lr,
                    "grad_norm": engine.grad_norm,
                    "tokens_per_s": plan.tokens_per_step / (time.perf_counter() - step_began),
                    "mem_bytes": peak_bytes(engine.device),
                }
            )
    return time.perf_counter() - began


def evaluate(engine: shoal.Engine, corpus: Corpus, plan: Plan) -> float:
    """Bits per byte on the held-out windows; every rank takes an equal part of them."""
    windows = evaluation_windows(
        corpus.held_out(), count=plan.evaluation_windows, context=plan.context
    )
    own = torch.from_numpy(windows[engine.rank :: engine.world_size].astype(np.int64))
    total = torch.zeros(1, device=engine.device)
    engine.eval()
    with torch.no_grad():
        for tokens in own.to(engine.device).split(plan.micro_batch):
            total += engine(tokens[:, :-1], tokens[:, 1:]) * len(tokens) / len(windows)
    engine.train()
    if dist.is_initialized():
        dist.all_reduce(total)
    return total.item() / math.log(2)


@torch.no_grad()
def sample(weights: dict[str, Tensor], plan: Plan, *, prompt: str) -> str:
    """Text from a plain GPT with these weights: what the engine gives back needs no engine."""
    model = make_model(plan)
    model.load_state_dict(weights)
    generator = torch.Generator().manual_seed(plan.seed)
    tokens = torch.tensor([list(prompt.encode())])
    for _ in range(plan.sample_bytes):
        logits = model(tokens[:, -plan.context :])[0, -1]
        chances = torch.softmax(logits.float() / 0.8, dim=0)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=generator)[None]], 1)
    return bytes(tokens[0].tolist()).decode(errors="replace")


def make_model(plan: Plan) -> GPT:
    """The demo's GPT, weights from the plan's seed."""
    torch.manual_seed(plan.seed)
    return GPT(
        ModelConfig(context=plan.context, width=plan.width, heads=plan.heads, layers=plan.layers)
    )


def finish(
    engine: shoal.Engine, corpus: Corpus, plan: Plan, folder: Path, *, seconds: float
) -> None:
    """Evaluates, samples, and leaves evaluation.json and sample.txt."""
    bits_per_byte = evaluate(engine, corpus, plan)
    weights = engine.full_state_dict(rank0_only=True)
    if engine.rank == 0:
        record = {
            "bits_per_byte": bits_per_byte,
            "tokens": plan.steps * plan.tokens_per_step,
            "seconds": seconds,
        }
        (folder / "evaluation.json").write_text(json.dumps(record) + "\n")
        (folder / "sample.txt").write_text(sample(weights, plan, prompt="def "))


def main() -> None:
    """Reads the plan, trains until `--stop-at` or to the end."""
    parser = argparse.ArgumentParser(description="One rank of the demo; run.py starts it.")
    parser.add_argument("--folder", type=Path, required=True, help="the run's folder")
    parser.add_argument("--stop-at", type=int, help="save a checkpoint after this step and stop")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    plan = Plan.read(folder / "plan.json")
    corpus = prepare(folder / "data")
    checkpoints = folder / "checkpoints"
    with shoal.Engine(
        make_model(plan), config=plan.engine_config(), mesh=shoal.Mesh(dp=plan.world_size)
    ) as engine:
        reporter = Reporter(folder, plan, active=engine.rank == 0)
        seconds = 0.0
        if (checkpoints / "latest").exists():
            seconds = engine.load(checkpoints)["seconds"]
            reporter.say(f"resumed from the checkpoint of step {engine.global_step}")
        stop = plan.steps if arguments.stop_at is None else arguments.stop_at
        seconds += train(engine, corpus, plan, reporter, stop=stop)
        if stop < plan.steps:
            path = engine.save(checkpoints, user_state={"seconds": seconds})
            reporter.say(f"stopped half-way; checkpoint in {path}")
        else:
            finish(engine, corpus, plan, folder, seconds=seconds)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
