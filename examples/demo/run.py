"""The demo: trains a small GPT on the standard library's source, sharded over two ranks.

    python examples/demo/run.py [--stage 0..3] [--short]

One rank per accelerator, or two on the CPU. Trains to the half, saves, stops, resumes from the
checkpoint in new processes and finishes; `runs/demo/` holds what came out.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from data import Corpus, bigram_bits_per_byte, evaluation_windows, prepare
from plan import Plan
from report import draw_losses

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def say(text: str) -> None:
    """A line for people."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def number_of_ranks() -> int:
    """One rank per accelerator, or two on the CPU."""
    return torch.accelerator.device_count() if torch.accelerator.is_available() else 2


def train_part(folder: Path, plan: Plan, *, stop_at: int | None) -> None:
    """Starts the ranks and waits. Raises CalledProcessError if one failed."""
    threads = max(1, (os.cpu_count() or 1) // plan.world_size)
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {
        "OMP_NUM_THREADS": str(min(threads, 8)),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={plan.world_size}", str(HERE / "train.py")]
    command += ["--folder", str(folder)]
    if stop_at is not None:
        command += ["--stop-at", str(stop_at)]
    subprocess.run(command, env=env, check=True)


def clear(folder: Path) -> None:
    """Removes what an earlier run left, but not the text."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for name in ("metrics.jsonl", "evaluation.json", "result.json", "loss.png", "sample.txt"):
        (folder / name).unlink(missing_ok=True)


def write_result(folder: Path, plan: Plan, *, bigram: float) -> dict[str, Any]:
    """Joins the ranks' evaluation with the bigram's into result.json."""
    found = json.loads((folder / "evaluation.json").read_text())
    (folder / "evaluation.json").unlink()
    result = {
        "bits_per_byte": found["bits_per_byte"],
        "bigram_bits_per_byte": bigram,
        "tokens": found["tokens"],
        "seconds": found["seconds"],
        "stage": plan.stage,
        "world_size": plan.world_size,
    }
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def describe(result: dict[str, Any], corpus: Corpus, folder: Path, sample: str) -> str:
    """The last lines of the demo."""
    shown = os.path.relpath(folder)
    excerpt = "\n".join("    " + line for line in sample.splitlines()[:12])
    return f"""
a sample of generated text:
{excerpt}

held-out text: {result["bits_per_byte"]:.3f} bits per byte (bigram model: \
{result["bigram_bits_per_byte"]:.3f}, uniform: 8)
trained on {result["tokens"]:,} of {corpus.train_bytes:,} bytes in {result["seconds"]:.0f} s, \
ZeRO stage {result["stage"]}, {result["world_size"]} ranks
{shown}/result.json    this result
{shown}/metrics.jsonl  step, loss, lr, grad_norm, tokens_per_s, mem_bytes
{shown}/loss.png       the losses
{shown}/sample.txt     the whole sample
{shown}/checkpoints/   the checkpoint that the second half started from"""


def main() -> None:
    """Runs the demo."""
    parser = argparse.ArgumentParser(description="Trains a small GPT, sharded over ranks.")
    parser.add_argument("--stage", type=int, choices=range(4), default=3, help="ZeRO stage")
    parser.add_argument("--short", action="store_true", help="a minute in all; learns little")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "demo", help="for output")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    clear(folder)
    corpus = prepare(folder / "data")
    plan = Plan.make(stage=arguments.stage, world_size=number_of_ranks(), short=arguments.short)
    plan.write(folder / "plan.json")
    say(
        f"text: {corpus.num_files} files of the standard library in {', '.join(corpus.roots)}: "
        f"{corpus.train_bytes:,} bytes to train on, {corpus.held_out_bytes:,} held out"
    )
    windows = evaluation_windows(
        corpus.held_out(), count=plan.evaluation_windows, context=plan.context
    )
    bigram = bigram_bits_per_byte(corpus.train(), windows)
    say(f"{plan.world_size} ranks, ZeRO stage {plan.stage}, {plan.steps} steps")
    train_part(folder, plan, stop_at=plan.steps // 2)
    train_part(folder, plan, stop_at=None)
    result = write_result(folder, plan, bigram=bigram)
    draw_losses(folder / "metrics.jsonl", folder / "loss.png", bigram=bigram)
    say(describe(result, corpus, folder, (folder / "sample.txt").read_text()))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"[demo] the ranks ended with {failed.returncode}; their errors are above")
