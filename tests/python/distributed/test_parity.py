"""Twenty steps of an engine equal twenty steps of plain PyTorch on one process.

Tolerances are those of the design (engine, "Oracle in tests"): float64 element by element, float32
by the norm of the whole update (AdamW turns round-off in a tiny gradient into a full-size step),
bfloat16 by the spread of plain bfloat16 runs that differ in order and split of the samples.
"""

import functools
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from distributed.parity_model import CLIP, LR, Run, train_plain
from harness import RankPool
from torch import Tensor

TRAIN = "distributed.parity_jobs:train"
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
STAGES = [0, 1, 2, 3]


@functools.cache
def plain(dtype: str, clip: float) -> Run:
    return train_plain(dtype=DTYPES[dtype], clip=clip)


@functools.cache
def bfloat16_tolerances(clip: float) -> list[float]:
    """Per step: twice the largest relative difference among five plain runs, at least 2^-8."""
    runs = [plain("bfloat16", clip)] + [
        train_plain(dtype=torch.bfloat16, clip=clip, splits=splits, shuffle_seed=seed)
        for seed, splits in enumerate((1, 2, 3, 6))
    ]
    spreads = []
    for losses in zip(*(run.losses for run in runs), strict=True):
        spread = (max(losses) - min(losses)) / min(losses)
        spreads.append(max(2 * spread, 2.0**-8))
    return spreads


def mean_losses(results: list[dict[str, Any]]) -> list[float]:
    per_rank = zip(*(result["losses"] for result in results), strict=True)
    return [sum(losses) / len(losses) for losses in per_rank]


def assert_close_float64(end: Mapping[str, Tensor], oracle: Run) -> None:
    for name, expected in oracle.end.items():
        allowed = 1e-9 * expected.abs().max().item() + 1e-12
        difference = (end[name] - expected).abs().max().item()
        assert difference <= allowed, f"{name}: {difference} > {allowed}"


def assert_close_float32(end: Mapping[str, Tensor], oracle: Run) -> None:
    update = difference = 0.0
    for name, expected in oracle.end.items():
        update += (expected - oracle.start[name]).double().square().sum().item()
        difference += (end[name] - expected).double().square().sum().item()
    assert difference**0.5 <= 1e-4 * update**0.5


def assert_parity(results: list[dict[str, Any]], oracle: Run, *, dtype: str, clip: float) -> None:
    losses = mean_losses(results)
    if dtype == "bfloat16":
        allowed = bfloat16_tolerances(clip)
    else:
        allowed = [1e-5 if dtype == "float32" else 1e-9] * len(losses)
    for step, (loss, expected, limit) in enumerate(
        zip(losses, oracle.losses, allowed, strict=True)
    ):
        assert abs(loss - expected) <= limit * abs(expected), f"loss of step {step}"
    for result in results:
        assert result["dtypes"] == [f"torch.{dtype}"]
        assert result["global_step"] == len(losses)
        assert result["skipped"] == 0
        assert result["norms"] == results[0]["norms"]
        if dtype == "float64":
            assert_close_float64(result["end"], oracle)
        elif dtype == "float32":
            assert_close_float32(result["end"], oracle)
    if dtype != "bfloat16":
        assert results[0]["norms"] == pytest.approx(oracle.norms, rel=1e-4)
    if clip > 0:
        assert min(oracle.norms) > clip, "the clipping of this test does nothing"


@pytest.mark.parametrize("clip", [0.0, CLIP], ids=["noclip", "clip"])
@pytest.mark.parametrize("accumulation", [1, 3], ids=["accum1", "accum3"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stage", STAGES)
def test_two_ranks_equal_one_process(
    ranks: RankPool, stage: int, dtype: str, accumulation: int, clip: float
) -> None:
    results = ranks.run(
        TRAIN, world_size=2, stage=stage, dtype=dtype, accumulation=accumulation, clip=clip
    )
    assert_parity(results, plain(dtype, clip), dtype=dtype, clip=clip)


@pytest.mark.parametrize(
    ("world_size", "stage", "dtype", "accumulation"),
    [
        (3, 3, "float64", 3),
        (3, 2, "float64", 1),
        (3, 1, "float32", 3),
        (3, 3, "bfloat16", 1),
        (4, 3, "float64", 1),
        (4, 2, "float32", 3),
        (4, 0, "float64", 1),
        (4, 3, "bfloat16", 3),
    ],
)
def test_three_and_four_ranks_equal_one_process(
    ranks: RankPool, world_size: int, stage: int, dtype: str, accumulation: int
) -> None:
    results = ranks.run(
        TRAIN,
        world_size=world_size,
        stage=stage,
        dtype=dtype,
        accumulation=accumulation,
        clip=CLIP,
    )
    assert_parity(results, plain(dtype, CLIP), dtype=dtype, clip=CLIP)


@pytest.mark.parametrize("stage", STAGES)
def test_parameter_without_gradient_in_a_step_is_left_alone(ranks: RankPool, stage: int) -> None:
    """Neither decayed nor moved by old moments; its own count of updates corrects the bias."""
    results = ranks.run(TRAIN, world_size=2, stage=stage, dtype="float64", skip_sometimes=True)
    oracle = train_plain(dtype=torch.float64, clip=0.0, uses_all=lambda step: step % 3 != 1)
    assert_parity(results, oracle, dtype="float64", clip=0.0)
    untouched = oracle.start["never.weight"]
    torch.testing.assert_close(results[0]["end"]["never.weight"], untouched, rtol=0, atol=0)


@pytest.mark.parametrize("stage", [0, 3])
def test_learning_rate_reported_is_the_one_applied(ranks: RankPool, stage: int) -> None:
    schedule = {
        "type": "WarmupCosineLR",
        "params": {
            "total_num_steps": 20,
            "warmup_num_steps": 5,
            "warmup_min_ratio": 0.1,
            "cos_min_ratio": 0.1,
            "warmup_type": "linear",
        },
    }
    results = ranks.run(TRAIN, world_size=2, stage=stage, dtype="float64", scheduler=schedule)
    rates = results[0]["rates"]
    assert rates == results[1]["rates"]
    assert max(rates) <= LR * (1 + 1e-12)
    assert rates[0] < rates[2] < rates[4]
    assert rates[7] > rates[12] > rates[19] > 0.09 * LR
    oracle = train_plain(dtype=torch.float64, clip=0.0, lr_at=lambda step: rates[step])
    assert_parity(results, oracle, dtype="float64", clip=0.0)


@pytest.mark.parametrize("recompute", ["reentrant", "non_reentrant"])
@pytest.mark.parametrize("stage", [2, 3])
def test_activation_checkpointing_changes_no_number(
    ranks: RankPool, stage: int, recompute: str
) -> None:
    results = ranks.run(TRAIN, world_size=2, stage=stage, dtype="float64", recompute=recompute)
    assert_parity(results, plain("float64", 0.0), dtype="float64", clip=0.0)
