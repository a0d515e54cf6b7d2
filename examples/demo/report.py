"""The demo's picture: training loss over steps, against the bigram model."""

import json
import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def draw_losses(metrics: Path, picture: Path, *, bigram: float) -> None:
    """Draws the losses of metrics.jsonl in bits per byte, and their running mean, as a PNG."""
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    steps = [record["step"] for record in records]
    bits = [record["loss"] / math.log(2) for record in records]
    mean, smooth = bits[0], []
    for value in bits:
        mean = 0.95 * mean + 0.05 * value
        smooth.append(mean)
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(steps, bits, color="tab:blue", alpha=0.3, linewidth=0.8)
    axes.plot(steps, smooth, color="tab:blue", label="GPT (training)")
    axes.axhline(bigram, color="tab:gray", linestyle="--", label="bigram model (held-out)")
    axes.set(xlabel="step", ylabel="bits per byte")
    axes.legend()
    figure.savefig(picture, dpi=120)
    pyplot.close(figure)
