"""Fixtures that every test may use; and the demo's modules are made importable."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import RankPool

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "demo"))


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankPool]:
    """Processes for jobs on several ranks, alive for the whole session."""
    pool = RankPool(tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.close()
