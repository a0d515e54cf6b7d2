"""Fixtures that every test may use."""

from collections.abc import Iterator

import pytest
from harness import RankPool


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankPool]:
    """Processes for jobs on several ranks, alive for the whole session."""
    pool = RankPool(tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.close()
