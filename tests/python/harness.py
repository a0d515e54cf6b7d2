"""Runs functions on several gloo ranks: worker processes that stay alive between jobs.

A job is a function named "module:function" (importable from tests/python), called with keyword
arguments on each rank after a process group of its own was made; what it returns is pickled back.
Importing torch takes seconds, a process group milliseconds: processes stay and groups do not.

Faults: a rank that raises, dies or is late ends the job; the other ranks get `GRACE_S` to report
their own errors; then all processes of the pool are killed by id, and the next job starts new ones.
"""

import contextlib
import faulthandler
import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "python"
GRACE_S = 15.0
START_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a job on one rank: exactly one of value, error, died is meaningful."""

    rank: int
    value: Any = None
    error: str | None = None  # the traceback of what the function raised
    died: str | None = None  # how the process ended, or "timeout"
    log: str = ""  # what the rank wrote to stdout and stderr during the job
    seconds: float = 0.0  # from the start of the job until this rank was done

    @property
    def ok(self) -> bool:
        return self.error is None and self.died is None


class RanksFailed(AssertionError):
    """A job failed on some rank; the text holds each failing rank's error and log."""


def rank_environment() -> dict[str, str]:
    """The environment of a rank: one thread, paths to the tests and to the package."""
    env = dict(os.environ)
    env["OMP_NUM_THREADS"] = "1"
    env["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), str(HERE), env.get("PYTHONPATH", "")])
    env["GLOO_SOCKET_IFNAME"] = "lo"
    env["MASTER_ADDR"] = "127.0.0.1"
    return env


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.rank = rank
        ours, theirs = socket.socketpair()
        self.log_path = folder / f"rank{rank}.{time.monotonic_ns()}.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "harness.py"), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=rank_environment(),
                pass_fds=[theirs.fileno()],
            )
        theirs.close()
        self.pipe = Connection(ours.detach())
        self.log_start = 0

    def send(self, job: dict[str, Any]) -> None:
        self.log_start = self.log_path.stat().st_size
        with contextlib.suppress(BrokenPipeError):  # it died between jobs: found when we receive
            self.pipe.send_bytes(pickle.dumps(job))

    def log(self) -> str:
        with self.log_path.open("rb") as file:
            file.seek(self.log_start)
            return file.read().decode(errors="replace")

    def receive(self, began: float) -> Outcome:
        """Reads the answer. @pre the pipe is readable."""
        seconds = time.monotonic() - began
        try:
            answer = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            code = self.process.wait()
            return Outcome(
                rank=self.rank, died=f"exit code {code}", log=self.log(), seconds=seconds
            )
        return Outcome(rank=self.rank, log=self.log(), seconds=seconds, **answer)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.pipe.close()


class RankPool:
    """Worker processes for up to as many ranks as any job asks for. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """`folder` takes the logs. Processes start with the first job."""
        self._folder = folder
        self._workers: list[_Worker] = []
        self._store: Any = None
        self._jobs = 0

    def run(
        self, function: str, *, world_size: int, timeout_s: float = 120.0, **kwargs: object
    ) -> list[Any]:
        """The function's results by rank; raises RanksFailed if any rank failed."""
        outcomes = self.outcomes(function, world_size=world_size, timeout_s=timeout_s, **kwargs)
        bad = [outcome for outcome in outcomes if not outcome.ok]
        if bad:
            raise RanksFailed(describe_failures(function, bad))
        return [outcome.value for outcome in outcomes]

    def outcomes(
        self, function: str, *, world_size: int, timeout_s: float = 120.0, **kwargs: object
    ) -> list[Outcome]:
        """What became of the job on each rank; failures are values here."""
        self._start(world_size)
        self._jobs += 1
        began = time.monotonic()
        for worker in self._workers[:world_size]:
            worker.send(
                {
                    "function": function,
                    "kwargs": kwargs,
                    "rank": worker.rank,
                    "world_size": world_size,
                    "port": self._store.port,
                    "prefix": f"job{self._jobs}",
                    "timeout_s": timeout_s,
                }
            )
        outcomes = self._collect(self._workers[:world_size], began, began + timeout_s)
        if not all(outcome.ok for outcome in outcomes):
            self.close()
        return outcomes

    def pids(self) -> list[int]:
        """The ids of the living processes, by rank."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """Kills every process of the pool; the next job starts new ones."""
        for worker in self._workers:
            worker.kill()
        self._workers = []

    def _start(self, world_size: int) -> None:
        if self._store is None:
            from torch.distributed import TCPStore

            self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        fresh = [_Worker(rank, self._folder) for rank in range(len(self._workers), world_size)]
        self._workers += fresh
        began = time.monotonic()
        outcomes = self._collect(fresh, began, began + START_S)
        bad = [outcome for outcome in outcomes if not outcome.ok]
        if bad:
            self.close()
            raise RanksFailed(describe_failures("starting the ranks", bad))

    def _collect(self, workers: Sequence[_Worker], began: float, deadline: float) -> list[Outcome]:
        done: dict[int, Outcome] = {}
        while len(done) < len(workers):
            waiting = {worker.pipe: worker for worker in workers if worker.rank not in done}
            ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                for worker in waiting.values():
                    done[worker.rank] = _timed_out(worker, began)
                break
            for pipe in ready:
                worker = waiting[pipe]  # type: ignore[index]
                done[worker.rank] = worker.receive(began)
                if not done[worker.rank].ok:
                    deadline = min(deadline, time.monotonic() + GRACE_S)
        return [done[worker.rank] for worker in workers]


def _timed_out(worker: _Worker, began: float) -> Outcome:
    """Has a late process write its threads' stacks into its log."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker.process.pid, signal.SIGUSR1)
    time.sleep(0.3)
    seconds = time.monotonic() - began
    return Outcome(rank=worker.rank, died="timeout", log=worker.log(), seconds=seconds)


def describe_failures(what: str, outcomes: Sequence[Outcome]) -> str:
    """The text of RanksFailed."""
    parts = [f"{what} failed on ranks {[outcome.rank for outcome in outcomes]}"]
    for outcome in outcomes:
        parts.append(f"---- rank {outcome.rank}: {outcome.died or 'raised'}")
        parts.append(outcome.error or "")
        parts.append(outcome.log[-6000:])
    return "\n".join(parts)


def launch(
    arguments: Sequence[str], *, world_size: int, folder: Path, timeout_s: float
) -> list[Outcome]:
    """Starts `python arguments...` once per rank, as torchrun would, and waits for all to end.

    A rank's outcome has value 0 for a clean exit, else `died`; ranks that run past `timeout_s` are
    killed and say "timeout". `log` is all that the rank wrote.
    """
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    began = time.monotonic()
    ranks = []
    for rank in range(world_size):
        env = rank_environment() | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(world_size),
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        path = folder / f"launch.rank{rank}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
            )
        ranks.append((rank, process, path))
    outcomes: dict[int, Outcome] = {}
    while len(outcomes) < world_size:
        late = time.monotonic() - began > timeout_s
        for rank, process, path in ranks:
            if rank in outcomes or (process.poll() is None and not late):
                continue
            died = None if process.returncode == 0 else f"exit code {process.returncode}"
            if process.returncode is None:
                process.kill()
                process.wait()
                died = "timeout"
            seconds = time.monotonic() - began
            log_text = path.read_text(errors="replace")
            outcomes[rank] = Outcome(
                rank=rank, value=process.returncode, died=died, log=log_text, seconds=seconds
            )
        time.sleep(0.02)
    return [outcomes[rank] for rank in range(world_size)]


def _run_job(job: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the job returns
    from datetime import timedelta

    import torch.distributed as dist

    module, _, name = job["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    os.environ |= {
        "RANK": str(job["rank"]),
        "LOCAL_RANK": str(job["rank"]),
        "WORLD_SIZE": str(job["world_size"]),
        "LOCAL_WORLD_SIZE": str(job["world_size"]),
        "MASTER_PORT": str(job["port"]),
    }
    store = dist.TCPStore("127.0.0.1", job["port"], is_master=False, wait_for_workers=False)
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore(job["prefix"], store),
        rank=job["rank"],
        world_size=job["world_size"],
        timeout=timedelta(seconds=job["timeout_s"]),
    )
    try:
        return function(**job["kwargs"])
    finally:
        dist.destroy_process_group()


def _serve(pipe: Connection) -> None:
    """The life of a worker: says that it is up, then runs jobs until the pipe closes."""
    import torch

    torch.set_num_threads(1)
    pipe.send_bytes(pickle.dumps({"value": None}))
    while True:
        try:
            job = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            answer = {"value": _run_job(job)}
        except BaseException:  # the parent decides what a failure means
            answer = {"error": traceback.format_exc()}
        sys.stdout.flush()
        pipe.send_bytes(pickle.dumps(answer))


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _serve(Connection(int(sys.argv[1])))
