"""The harness finds what it must find: a rank that raises, dies or hangs."""

import os
from pathlib import Path

import pytest
from harness import RankPool, RanksFailed, launch

JOBS = "distributed.harness_jobs"


def test_processes_stay_between_jobs_of_any_size(ranks: RankPool) -> None:
    two = ranks.run(f"{JOBS}:sum_of_ranks", world_size=2)
    three = ranks.run(f"{JOBS}:sum_of_ranks", world_size=3)
    assert [total for _, total in two] == [3.0, 3.0]
    assert [total for _, total in three] == [6.0, 6.0, 6.0]
    assert [pid for pid, _ in two] == [pid for pid, _ in three][:2]


@pytest.mark.parametrize(
    ("how", "says"), [("raise", "planted fault"), ("die", "exit code -9"), ("hang", "timeout")]
)
def test_failing_rank_is_named_and_all_processes_end(ranks: RankPool, how: str, says: str) -> None:
    ranks.run(f"{JOBS}:sum_of_ranks", world_size=2)
    pids = ranks.pids()
    with pytest.raises(RanksFailed, match=rf"(?s)failed on ranks \[1\].*{says}"):
        ranks.run(f"{JOBS}:fail_on", world_size=2, timeout_s=3.0, rank=1, how=how)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert len(ranks.run(f"{JOBS}:sum_of_ranks", world_size=2)) == 2


def test_launch_reports_each_exit(tmp_path: Path) -> None:
    script = "import os, sys; sys.exit(int(os.environ['RANK']))"
    outcomes = launch(["-c", script], world_size=2, folder=tmp_path, timeout_s=60.0)
    assert [outcome.ok for outcome in outcomes] == [True, False]
    assert outcomes[1].died == "exit code 1"
