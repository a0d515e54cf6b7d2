"""Shoal's own checkpoint files: what other tools see, and how ranks save and load together."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import shoal
from shoal import checkpoint
from shoal._load import core
from shoal.checkpoint import Piece, Ranks

RUN = {"mesh": "dp=2", "zero_stage": 3}


class Team:
    """Ranks as threads of this process, with an all-gather of texts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._texts = [""] * size
        self._barrier = threading.Barrier(size, timeout=60)

    def ranks(self, rank: int) -> Ranks:
        def all_gather_text(text: str) -> list[str]:
            self._texts[rank] = text
            self._barrier.wait()
            result = list(self._texts)
            self._barrier.wait()
            return result

        return Ranks(rank=rank, size=self.size, all_gather_text=all_gather_text)

    def run(self, body: Callable[[Ranks], Any]) -> list[Any]:
        """Results of `body` by rank; an exception is a result."""

        def guarded(rank: int) -> object:
            try:
                return body(self.ranks(rank))
            except Exception as error:
                return error

        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(guarded, range(self.size)))


def whole(
    name: str, tensor: torch.Tensor, *, role: str = "param", replicated: bool = False
) -> Piece:
    """All of a contiguous tensor."""
    return Piece(
        tensor=name,
        role=role,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tensor.shape,
        begin=0,
        end=tensor.numel(),
        address=tensor.data_ptr(),
        replicated=replicated,
    )


def part(name: str, tensor: torch.Tensor, begin: int, end: int) -> Piece:
    """Elements [begin, end) of a contiguous tensor."""
    address = tensor.data_ptr() + begin * tensor.element_size()
    return replace(whole(name, tensor), begin=begin, end=end, address=address)


def save_one(root: Path, step: int, tensor: torch.Tensor, *, keep: int | None = None) -> Path:
    return checkpoint.save(
        root, step=step, pieces=[whole("w", tensor)], ranks=Ranks(), run=RUN, keep=keep
    )


def load_one(path: Path) -> torch.Tensor:
    out = torch.empty(6)
    checkpoint.load(path).read_pieces([whole("w", out)])
    return out


def names_in(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.name != "lock")


@pytest.fixture
def values() -> Iterator[torch.Tensor]:
    yield torch.arange(6, dtype=torch.float32)


DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]


def test_files_are_safetensors_files_that_the_package_reads(tmp_path: Path) -> None:
    tensors = {str(d): (torch.arange(15).reshape(3, 5) % 2).to(d) for d in DTYPES}
    tensors["scalar"] = torch.tensor(7.0)
    tensors["odd ü/name[0:1]"] = torch.tensor([1, 2], dtype=torch.uint8)
    tensors["complex"] = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    path = checkpoint.save(
        tmp_path,
        step=3,
        pieces=[whole(name, t) for name, t in tensors.items()],
        ranks=Ranks(),
        run=RUN,
    )
    file = path / "rank-00000.safetensors"
    read = load_file(file)
    assert set(read) == {f"param/{n}[0:{t.numel()}]" for n, t in tensors.items()}
    for name, tensor in tensors.items():
        found = read[f"param/{name}[0:{tensor.numel()}]"]
        expected = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected), name
    with safe_open(file, "pt") as opened:
        assert opened.metadata() == {
            "format": "shoal-checkpoint",
            "format_version": "1",
            "rank": "0",
        }


def test_every_dtype_comes_back_bit_for_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    sources = {}
    for dtype in [*DTYPES, torch.complex64, torch.complex128]:
        raw = torch.randint(0, 2, (7 * 16,), dtype=torch.uint8, generator=generator)
        sources[str(dtype)] = raw[: 7 * dtype.itemsize].clone().view(dtype)
    checkpoint.save(
        tmp_path,
        step=0,
        pieces=[whole(name, t) for name, t in sources.items()],
        ranks=Ranks(),
        run=RUN,
    )
    targets = {name: torch.zeros_like(t) for name, t in sources.items()}
    checkpoint.load(tmp_path).read_pieces([whole(name, t) for name, t in targets.items()])
    for name, source in sources.items():
        assert torch.equal(source.view(torch.uint8), targets[name].view(torch.uint8)), name


def test_ranks_save_together_and_any_other_cut_loads(tmp_path: Path) -> None:
    w = torch.arange(10, dtype=torch.float64)
    bias = torch.tensor([5.0])
    cuts = [0, 3, 3, 10]  # rank 1 has no element of w

    def save(ranks: Ranks) -> Path:
        pieces = [
            part("w", w, cuts[ranks.rank], cuts[ranks.rank + 1]),
            whole("bias", bias, replicated=True),
        ]
        return checkpoint.save(
            tmp_path,
            step=1,
            pieces=pieces,
            ranks=ranks,
            run={**RUN, "state": {"lr": 0.1}, "aliases": {"tied": "w"}},
            rank_state={"seed": ranks.rank},
        )

    assert Team(3).run(save) == [tmp_path / "step-00000001"] * 3

    def load(ranks: Ranks) -> tuple[list[float], list[float], dict[str, Any]]:
        out, out_bias = torch.zeros(10, dtype=torch.float64), torch.zeros(1)
        opened = checkpoint.load(tmp_path, ranks=ranks)
        opened.read_pieces(
            [part("tied", out, ranks.rank * 5, ranks.rank * 5 + 5), whole("bias", out_bias)]
        )
        return out.tolist(), out_bias.tolist(), opened.rank_state(ranks.rank)

    first, second = Team(2).run(load)
    assert first == ([0, 1, 2, 3, 4, 0, 0, 0, 0, 0], [5], {"seed": 0})
    assert second == ([0, 0, 0, 0, 0, 5, 6, 7, 8, 9], [5], {"seed": 1})
    opened = checkpoint.load(tmp_path)
    assert (opened.state, opened.step, opened.world_size) == ({"lr": 0.1}, 1, 3)
    assert (opened.mesh, opened.zero_stage, opened.aliases) == ("dp=2", 3, {"tied": "w"})
    assert opened.tensors() == {
        ("w", "param"): ("float64", (10,)),
        ("bias", "param"): ("float32", (1,)),
    }
    with pytest.raises(KeyError, match="rank 3 did not save; 3 ranks did"):
        opened.rank_state(3)


def test_replicated_data_is_written_once_and_shared_out(tmp_path: Path) -> None:
    big = torch.arange(1 << 20, dtype=torch.float32)  # 4 MiB

    def save(ranks: Ranks) -> Path:
        pieces = [whole("big", big, replicated=True)]
        return checkpoint.save(tmp_path, step=1, pieces=pieces, ranks=ranks, run=RUN)

    path = Team(2).run(save)[0]
    sizes = [(path / f"rank-0000{rank}.safetensors").stat().st_size for rank in range(2)]
    assert sizes == [4096 + (2 << 20)] * 2
    out = torch.zeros_like(big)
    checkpoint.load(tmp_path).read_pieces([whole("big", out)])
    assert torch.equal(out, big)


def test_state_keeps_every_digit(tmp_path: Path, values: torch.Tensor) -> None:
    state = np.random.PCG64(1).state  # integers of 128 bits
    assert state["state"]["state"] >= 1 << 64
    run = {**RUN, "state": {"x": 0.1 + 0.2, "text": "ü\u0000"}}
    pieces = [whole("w", values)]
    checkpoint.save(
        tmp_path, step=1, pieces=pieces, ranks=Ranks(), run=run, rank_state={"numpy": state}
    )
    opened = checkpoint.load(tmp_path)
    assert opened.rank_state(0) == {"numpy": state}
    assert opened.state == run["state"]


def test_saving_twice_gives_equal_files_of_tensors(tmp_path: Path, values: torch.Tensor) -> None:
    first = save_one(tmp_path, 1, values)
    before = (first / "rank-00000.safetensors").read_bytes()
    assert save_one(tmp_path, 1, load_one(tmp_path)) == first
    assert (first / "rank-00000.safetensors").read_bytes() == before
    assert names_in(tmp_path) == ["latest", "step-00000001"]


def test_keep_and_latest(tmp_path: Path, values: torch.Tensor) -> None:
    for step in range(1, 5):
        save_one(tmp_path, step, values + step, keep=2)
    assert names_in(tmp_path) == ["latest", "step-00000003", "step-00000004"]
    assert (tmp_path / "latest").read_text() == "step-00000004\n"
    assert torch.equal(load_one(tmp_path), values + 4)
    assert torch.equal(load_one(tmp_path / "step-00000003"), values + 3)
    with pytest.raises(shoal.InvalidArgumentError, match="keep is 0, must be >= 1"):
        save_one(tmp_path, 5, values, keep=0)
    assert names_in(tmp_path) == ["latest", "step-00000003", "step-00000004"]


def test_one_ranks_failure_is_the_same_error_on_all_ranks(
    tmp_path: Path, values: torch.Tensor
) -> None:
    save_one(tmp_path, 1, values)

    def save(ranks: Ranks) -> Path:
        end = 6 if ranks.rank == 0 else 7
        pieces = [part("w", values, 3 * ranks.rank, end)]
        return checkpoint.save(tmp_path, step=2, pieces=pieces, ranks=ranks, run=RUN)

    errors = Team(3).run(save)
    assert {type(error) for error in errors} == {shoal.InvalidArgumentError}
    assert len({str(error) for error in errors}) == 1
    assert 'tensor "w" (param): range [3:7] is not in its 6 elements' in str(errors[0])
    assert "(rank 1)" in str(errors[0])
    assert names_in(tmp_path) == ["latest", "step-00000001"]
    assert torch.equal(load_one(tmp_path), values)


def test_elements_that_no_rank_or_two_ranks_save_are_refused(
    tmp_path: Path, values: torch.Tensor
) -> None:
    def save(ranks: Ranks, *, gap: int) -> Path:
        begin, end = [(0, 3 - gap), (3, 6)][ranks.rank]
        pieces = [part("w", values, begin, end)]
        return checkpoint.save(tmp_path, step=2, pieces=pieces, ranks=ranks, run=RUN)

    for gap, text in [
        (1, r"elements \[2:3\] are in no piece"),
        (-1, r"elements \[3:4\] are written twice"),
    ]:
        for error in Team(2).run(lambda ranks, gap=gap: save(ranks, gap=gap)):
            with pytest.raises(shoal.InvalidArgumentError, match=text):
                raise error
    assert names_in(tmp_path) == []


def test_state_that_is_no_json_is_refused_on_all_ranks(
    tmp_path: Path, values: torch.Tensor
) -> None:
    def save(ranks: Ranks, *, state: object) -> Path:
        pieces = [whole("w", values, replicated=True)]
        own = {"x": state} if ranks.rank == 1 else {}
        return checkpoint.save(
            tmp_path, step=2, pieces=pieces, ranks=ranks, run=RUN, rank_state=own
        )

    for state, text in [(values, "not JSON serializable"), (float("nan"), "not JSON compliant")]:
        for error in Team(2).run(lambda ranks, state=state: save(ranks, state=state)):
            with pytest.raises(shoal.InvalidArgumentError, match=text):
                raise error


def test_a_damaged_piece_is_named_on_all_ranks(tmp_path: Path, values: torch.Tensor) -> None:
    def save(ranks: Ranks) -> Path:
        pieces = [part("w", values, 3 * ranks.rank, 3 * ranks.rank + 3)]
        return checkpoint.save(tmp_path, step=2, pieces=pieces, ranks=ranks, run=RUN)

    file = Team(2).run(save)[0] / "rank-00001.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 0x10
    file.write_bytes(data)

    def load(ranks: Ranks) -> None:
        out = torch.zeros(6)
        opened = checkpoint.load(tmp_path, ranks=ranks)
        opened.read_pieces([part("w", out, 3 * ranks.rank, 3 * ranks.rank + 3)])

    errors = Team(2).run(load)
    assert {type(error) for error in errors} == {shoal.CheckpointError}
    assert len({str(error) for error in errors}) == 1
    for text in ('tensor "w" (param)', str(file), "written by rank 1", "damaged"):
        assert text in str(errors[0])
    with pytest.raises(shoal.CheckpointError, match="damaged"):
        checkpoint.load(tmp_path).verify()


def test_a_damaged_index_is_refused(tmp_path: Path, values: torch.Tensor) -> None:
    index = save_one(tmp_path, 1, values) / "index.json"
    text = index.read_text()
    index.write_text(text.replace('"step":1', '"step":2'))
    with pytest.raises(shoal.CheckpointError, match="checksum does not fit"):
        checkpoint.load(tmp_path)
    json.loads(text)  # and it is JSON


def test_all_differences_are_listed_together_with_nearest_names(
    tmp_path: Path, values: torch.Tensor
) -> None:
    pieces = [whole("layer.0.weight", values), whole("bias", values), whole("gone", values)]
    checkpoint.save(tmp_path, step=1, pieces=pieces, ranks=Ranks(), run=RUN)
    out = torch.full((6,), -1.0)
    wanted = [
        whole("layer.0.wait", out),
        replace(whole("bias", out), shape=[2, 3]),
        whole("bias", out, role="exp_avg"),
    ]
    with pytest.raises(shoal.CheckpointError) as caught:
        checkpoint.load(tmp_path).read_pieces(wanted)
    text = str(caught.value)
    assert "missing from the checkpoint: layer.0.wait (param), nearest layer.0.weight" in text
    assert "bias (exp_avg)" in text
    assert "in the checkpoint, but not in the model: layer.0.weight (param); gone (param)" in text
    assert "bias (param): float32 [6] in the checkpoint, float32 [2, 3] here" in text
    assert out.tolist() == [-1] * 6


def test_a_second_job_is_refused_and_told_who_saves(tmp_path: Path, values: torch.Tensor) -> None:
    saving = core.CheckpointSaving(root=str(tmp_path), step=1, save_id="00000000000000aa")
    with pytest.raises(shoal.CheckpointError, match=rf"held by process {os.getpid()} on host"):
        save_one(tmp_path, 2, values)
    saving.abort()
    save_one(tmp_path, 2, values)
    assert names_in(tmp_path) == ["latest", "step-00000002"]


def test_nothing_to_load_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(shoal.CheckpointError, match="nowhere"):
        checkpoint.load(tmp_path / "nowhere")
    with pytest.raises(shoal.CheckpointError, match="no complete checkpoint"):
        checkpoint.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(shoal.ShoalError, match="exists and is no directory"):
        save_one(tmp_path / "file", 1, torch.zeros(6))


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_killed_while_saving_the_previous_one_is_used_and_the_broken_one_named(
    tmp_path: Path, values: torch.Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    save_one(tmp_path, 1, values)
    code = """
import os, signal, sys
import torch
from shoal._load import core
saving = core.CheckpointSaving(root=sys.argv[1], step=2, save_id="00000000000000aa")
core.write_rank_file(tmp_dir=saving.tmp_dir, rank=0, world_size=1, pieces=[], replicated=[],
                     state_json="{}")
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = run_python(code, str(tmp_path))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    broken = "step-00000002.tmp-00000000000000aa"
    assert names_in(tmp_path) == ["latest", "step-00000001", broken]
    with caplog.at_level(logging.WARNING, "shoal.checkpoint"):
        opened = checkpoint.load(tmp_path)
    assert opened.step == 1
    assert opened.skipped == (f'"{broken}": an unfinished save',)
    assert broken in caplog.text
    save_one(tmp_path, 2, values + 1)  # not hindered by the dead job's lock
    assert names_in(tmp_path) == ["latest", "step-00000001", "step-00000002"]
    assert torch.equal(load_one(tmp_path), values + 1)


def test_a_write_that_the_system_refuses_leaves_the_previous_checkpoint(
    tmp_path: Path, values: torch.Tensor
) -> None:
    save_one(tmp_path, 1, values)
    code = """
import resource, sys
import shoal, torch
from shoal import checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
w = torch.zeros(1 << 19)
piece = checkpoint.Piece(tensor="w", role="param", dtype="float32", shape=[1 << 19], begin=0,
                         end=1 << 19, address=w.data_ptr())
try:
    checkpoint.save(sys.argv[1], step=2, pieces=[piece], ranks=checkpoint.Ranks(), run={})
except shoal.CheckpointError as error:
    sys.stdout.write(str(error))
"""
    refused = run_python(code, str(tmp_path))
    assert "rank-00000.safetensors" in refused.stdout, refused.stderr
    assert "File too large" in refused.stdout
    assert names_in(tmp_path) == ["latest", "step-00000001"]
    assert torch.equal(load_one(tmp_path), values)
