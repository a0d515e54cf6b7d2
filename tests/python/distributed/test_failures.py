"""A rank that fails is named by the others, in time, and nothing hangs."""

import re
from pathlib import Path

import pytest
from harness import RankPool, launch

JOBS = "distributed.failure_jobs"


def assert_matches(text: str, pattern: str) -> None:
    assert re.search(pattern, text), f"no {pattern!r} in: {text}"


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("shape", r"blocks\.1\.(up|down)"),
        ("name", r"frozen|other"),
        ("trainable", r"norm\.bias"),
        ("missing", r"never"),
    ],
)
def test_ranks_that_built_different_models_are_told_the_first_difference(
    ranks: RankPool, how: str, names: str
) -> None:
    texts = ranks.run(f"{JOBS}:models_that_differ", world_size=2, how=how)
    for text in texts:
        assert text == texts[0]
        assert_matches(text, names)
        assert_matches(text, r"rank.*0")
        assert_matches(text, r"rank.*1")


def test_dead_rank_is_named_within_the_timeout(ranks: RankPool) -> None:
    outcomes = ranks.outcomes(
        f"{JOBS}:one_rank_stops", world_size=3, how="die", collective_timeout_s=20.0
    )
    assert outcomes[1].died == "exit code -9"
    for rank in (0, 2):
        assert outcomes[rank].ok, outcomes[rank]
        assert_matches(outcomes[rank].value["error"], r"(?i)rank\D{0,4}1\b")
        assert outcomes[rank].value["seconds"] < 20.0


def test_script_ends_when_a_rank_dies(tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("failure_jobs.py"))
    outcomes = launch([script, "die"], world_size=2, folder=tmp_path, timeout_s=60.0)
    assert outcomes[1].died == "exit code -9"
    assert outcomes[0].died not in (None, "timeout"), outcomes[0]
    assert_matches(outcomes[0].log, r"(?i)rank\D{0,4}1\b")
    assert outcomes[0].seconds < outcomes[1].seconds + 25.0
