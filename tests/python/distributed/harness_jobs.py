"""Jobs for the tests of the harness itself."""

import os
import signal
import time

import torch
import torch.distributed as dist


def sum_of_ranks() -> tuple[int, float]:
    """This process's id and the sum of rank + 1 over ranks."""
    value = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(value)
    return os.getpid(), value.item()


def fail_on(*, rank: int, how: str) -> str:
    """Rank `rank` raises, dies or sleeps; the others return."""
    if dist.get_rank() != rank:
        return "fine"
    if how == "raise":
        raise ValueError("planted fault")
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
    return "unreachable"
