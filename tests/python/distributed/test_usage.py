"""Ways in which people's models and loops use PyTorch, trained equal to plain PyTorch."""

import pytest
from distributed.usage_models import USAGES
from harness import RankPool

CASES = [(name, stage) for name, usage in USAGES.items() for stage in usage.stages]


@pytest.mark.parametrize(("name", "stage"), CASES)
def test_trains_like_plain_torch(ranks: RankPool, name: str, stage: int) -> None:
    ranks.run("distributed.usage_jobs:matches_plain_torch", world_size=2, name=name, stage=stage)
