"""What an engine does besides training: states, errors, accounting. The jobs hold the asserts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from distributed.parity_model import CLIP, Run, train_plain
from distributed.test_parity import STAGES, assert_close_float64, mean_losses, plain
from harness import RankPool

JOBS = "distributed.engine_jobs"


def assert_trained_like(results: list[dict[str, Any]], oracle: Run) -> None:
    assert mean_losses(results) == pytest.approx(oracle.losses, rel=1e-9)
    for result in results:
        assert_close_float64(result["end"], oracle)


@pytest.mark.parametrize("stage", STAGES)
def test_full_state_dict_is_the_model(ranks: RankPool, stage: int) -> None:
    ranks.run(f"{JOBS}:full_state_dict_is_the_model", world_size=2, stage=stage)


def test_sharded_parameter_refuses_access_by_name(ranks: RankPool) -> None:
    ranks.run(f"{JOBS}:sharded_parameter_refuses_access", world_size=2)


@pytest.mark.parametrize("stage", STAGES)
def test_unsharded_reads_and_keeps_writes(ranks: RankPool, stage: int) -> None:
    ranks.run(f"{JOBS}:unsharded_reads_and_keeps_writes", world_size=2, stage=stage)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("world_size", [2, 3])
def test_gradient_is_the_mean_over_ranks(ranks: RankPool, world_size: int, stage: int) -> None:
    ranks.run(f"{JOBS}:gradient_is_the_mean_over_ranks", world_size=world_size, stage=stage)


@pytest.mark.parametrize("stage", STAGES)
def test_steps_are_counted_by_the_engine(ranks: RankPool, stage: int) -> None:
    ranks.run(f"{JOBS}:steps_are_counted_by_the_engine", world_size=2, stage=stage)


def test_misuse_is_refused(ranks: RankPool) -> None:
    ranks.run(f"{JOBS}:misuse_is_refused", world_size=2)


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("stage", STAGES)
def test_exception_of_user_code_leaves_a_usable_engine(
    ranks: RankPool, stage: int, where: str
) -> None:
    results = ranks.run(
        f"{JOBS}:exception_leaves_a_usable_engine", world_size=2, stage=stage, where=where
    )
    assert_trained_like(results, plain("float64", 0.0))


@pytest.mark.parametrize("stages", [(3, 3), (2, 3), (0, 1)])
def test_two_engines_do_not_meet(ranks: RankPool, stages: tuple[int, int]) -> None:
    results = ranks.run(f"{JOBS}:two_engines_do_not_meet", world_size=2, stages=stages)
    assert_trained_like([first for first, _ in results], plain("float64", 0.0))
    assert_trained_like([second for _, second in results], plain("float64", CLIP))


@pytest.mark.parametrize("stage", STAGES)
def test_evaluation_between_steps_changes_nothing(ranks: RankPool, stage: int) -> None:
    results = ranks.run(f"{JOBS}:evaluation_between_steps", world_size=2, stage=stage)
    assert_trained_like(results, plain("float64", 0.0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stage", STAGES)
def test_non_finite_step_is_skipped(ranks: RankPool, stage: int, dtype: str) -> None:
    ranks.run(f"{JOBS}:non_finite_step_is_skipped", world_size=2, stage=stage, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("stage", STAGES)
def test_resumed_run_is_bit_identical(
    ranks: RankPool, tmp_path: Path, stage: int, dtype: str
) -> None:
    ranks.run(f"{JOBS}:save_and_resume", world_size=2, stage=stage, dtype=dtype, root=str(tmp_path))


@pytest.mark.parametrize("recompute", [None, "reentrant", "non_reentrant"])
def test_unit_is_gathered_once_per_entry_and_direction(
    ranks: RankPool, recompute: str | None
) -> None:
    ranks.run(f"{JOBS}:gathers_per_step", world_size=2, recompute=recompute)


@pytest.mark.parametrize(
    ("stage", "accumulation", "gathers", "reduces"),
    [
        (0, 1, 0, 4),
        (0, 3, 0, 4),
        (1, 1, 4, 4),
        (1, 3, 4, 4),
        (2, 1, 4, 4),
        (2, 3, 4, 12),
        (3, 1, 8, 4),
        (3, 3, 24, 12),
    ],
)
def test_collectives_of_a_step_are_those_of_the_stage(
    ranks: RankPool, stage: int, accumulation: int, gathers: int, reduces: int
) -> None:
    """Four units; per micro-batch 0/0/0/2 gathers and 0/0/1/1 reduces, the rest per step."""
    results = ranks.run(
        f"{JOBS}:traffic_per_step", world_size=2, stage=stage, accumulation=accumulation
    )
    for counts in results:
        evaluation = 4 if stage == 3 else 0
        assert counts.get("all_gather", {"count": 0})["count"] == gathers + evaluation
        if stage == 0:  # and one all-reduce of the step's own vector
            assert counts["all_reduce"]["count"] == reduces + 1
        else:
            assert counts["reduce_scatter"]["count"] == reduces
            assert counts["all_reduce"]["count"] == 1


@pytest.mark.parametrize("accumulation", [1, 2])
def test_stage_3_memory_is_that_of_the_plan(ranks: RankPool, accumulation: int) -> None:
    """Per rank (2 + 4 + 4 + 4) bytes per parameter / ranks, gradients of 2 or 4, arena, padding."""
    world_size = 2
    results = ranks.run(
        f"{JOBS}:memory_is_what_the_plan_says",
        world_size=world_size,
        stage=3,
        accumulation=accumulation,
    )
    for result in results:
        memory, share = result["memory"], result["params"] / world_size
        slack = memory["padding"]
        assert slack <= 0.01 * result["params"]
        assert memory["params"] == pytest.approx(2 * share, abs=2 * slack)
        assert memory["master"] == pytest.approx(4 * share, abs=4 * slack)
        assert memory["optimizer"] == pytest.approx(8 * share, abs=8 * slack)
        gradient_bytes = 2 if accumulation == 1 else 4
        assert memory["gradients"] == pytest.approx(gradient_bytes * share, abs=4 * slack)
        assert memory["overflow_count"] == 0
        planned = sum(
            memory[kind] for kind in ("params", "master", "optimizer", "gradients", "arena")
        )
        # What the kernel counts: the plan, a block's activations, and torch's and gloo's own.
        assert result["resident"] <= planned + 48e6


def test_oracle_of_these_tests_learns() -> None:
    oracle = train_plain(dtype=torch.float64, clip=0.0)
    assert oracle.losses[-1] < oracle.losses[0] - 0.5
