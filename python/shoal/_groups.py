"""Process groups that an engine owns: made for its ranks, given back by `close()`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True, kw_only=True)
class Groups:
    """The gather group and the reduce group of one engine (the same object when shared).

    `names` are torch's registered names, empty for a rank alone. Groups over a part of the job's
    ranks are left to torch, which ends them with its default group: torch names them by ranks and
    number of living groups, so a destroyed one's name, and with it stale addresses in the store,
    would come again.
    """

    gather: Any
    reduce: Any
    disposable: bool = True

    @property
    def names(self) -> tuple[str, str]:
        """Registered names of the gather group and the reduce group."""
        if self.gather is None:
            return ("", "")
        return (self.gather.group_name, self.reduce.group_name)

    def destroy(self) -> None:
        """Give the groups back. Idempotent."""
        groups = [self.gather] if self.gather is self.reduce else [self.gather, self.reduce]
        self.gather = self.reduce = None
        for group in groups:
            if group is not None and self.disposable and dist.is_initialized():
                dist.destroy_process_group(group)


def world_size() -> int:
    """Ranks of the job: of torch's default group, else what the launcher says, else 1."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1"))


def world_rank() -> int:
    """This process's rank in the job."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0"))


def choose_device() -> torch.device:
    """The accelerator of this process's local rank, or the CPU."""
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    kind = torch.accelerator.current_accelerator()
    index = int(os.environ.get("LOCAL_RANK", "0")) % torch.accelerator.device_count()
    torch.accelerator.set_device_index(index)
    return torch.device(kind.type if kind is not None else "cpu", index)


def make_groups(
    ranks: Sequence[int], *, device: torch.device, shared: bool, timeout_s: float
) -> Groups:
    """Create the groups over `ranks`; collective among them.

    One rank alone gets none, and torch.distributed stays untouched.
    """
    if len(ranks) == 1:
        return Groups(gather=None, reduce=None)
    timeout = timedelta(seconds=timeout_s)
    backend = dist.get_default_backend_for_device(device)
    if not dist.is_initialized():
        dist.init_process_group(backend, timeout=timeout)
    if dist.get_backend() == "fake":  # torch's group for measurements: nothing is sent
        backend = "fake"
    if backend not in dist.get_backend():
        msg = (
            f"[engine] torch.distributed was initialised with {dist.get_backend()!r}, "
            f"but tensors on {device.type} need {backend!r}"
        )
        raise ValueError(msg)

    whole = len(ranks) == dist.get_world_size()

    def make(purpose: str) -> Any:  # noqa: ANN401  (ProcessGroup is untyped in torch)
        return dist.new_group(
            list(ranks),
            timeout=timeout,
            backend=backend,
            use_local_synchronization=not whole,
            group_desc=f"shoal:{purpose}",
        )

    gather = make("gather")
    reduce = gather if shared else make("reduce")
    return Groups(gather=gather, reduce=reduce, disposable=whole)
