"""Save and load checkpoints in Shoal's own format (docs/formats/checkpoint.md).

`save` and `load` are collective: every rank calls them with its own pieces. What one rank cannot do
becomes the same error on all ranks, and the previous checkpoint stays. Pieces are addresses of host
memory; what lives on a device is copied by the caller before. Nothing here unpickles.

Most programs call `Engine.save` and `Engine.load`, which use this module.
"""

from __future__ import annotations

import difflib
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from shoal._load import core
from shoal.version import __version__

__all__ = ["Checkpoint", "Piece", "Ranks", "load", "save"]

_log = logging.getLogger("shoal.checkpoint")
_MAX_LISTED = 10  # names per kind in an error

_ERROR_CLASSES = {
    "CheckpointError": core.CheckpointError,
    "InvalidArgumentError": core.InvalidArgumentError,
    "UnsupportedError": core.UnsupportedError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Elements ``[begin, end)`` of one tensor, stored in order at an address of host memory.

    Attributes:
        tensor: Name of the parameter or buffer.
        role: What it is: ``param``, ``master``, ``exp_avg``, ``buffer``, ...
        dtype: torch's name without the prefix, such as ``bfloat16``.
        shape: Shape of the whole tensor.
        begin: First element, counted in the flattened tensor.
        end: One beyond the last element; may equal ``begin``: then the piece only says that the
            tensor exists.
        address: Where the elements are, ``tensor.data_ptr()``. The caller keeps the memory alive
            and, while saving, unchanged.
        replicated: All ranks hold the same elements and name the same replicated pieces in the same
            order; each is written once.
        dim_order: Dims from slowest to fastest varying in the order of the elements; empty means
            row-major.
    """

    tensor: str
    role: str
    dtype: str
    shape: Sequence[int]
    begin: int
    end: int
    address: int
    replicated: bool = False
    dim_order: Sequence[int] = ()


def _only_self(text: str) -> list[str]:
    return [text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The processes that save or load together.

    Attributes:
        rank: This process, 0 to ``size - 1``.
        size: How many there are.
        all_gather_text: Collective; returns every rank's text, by rank. It is what bounds waiting
            for a rank that never comes.
    """

    rank: int = 0
    size: int = 1
    all_gather_text: Callable[[str], list[str]] = field(default=_only_self)


def _agree(ranks: Ranks, payload: str, error: Exception | None) -> list[str]:
    """Every rank's `payload`; if any rank has an error, the same error on all ranks."""
    head = {} if error is None else {"kind": type(error).__name__, "error": str(error)}
    # The payload, which may be large, goes as it is behind a line of JSON.
    answers = ranks.all_gather_text(f"{json.dumps(head)}\n{payload}")
    heads = [json.loads(answer.partition("\n")[0]) for answer in answers]
    # Ranks that stumble over the same thing say it once.
    by_text: dict[str, list[int]] = {}
    for rank, told in enumerate(heads):
        if told:
            by_text.setdefault(told["error"], []).append(rank)
    if not by_text:
        return [answer.partition("\n")[2] for answer in answers]
    lines = []
    for text, which in list(by_text.items())[:_MAX_LISTED]:
        who = "rank" if len(which) == 1 else "ranks"
        lines.append(f"{text} ({who} {', '.join(map(str, which[:_MAX_LISTED]))})")
    kind = next(told["kind"] for told in heads if told)
    raise _ERROR_CLASSES.get(kind, core.CheckpointError)("\n".join(lines)) from error


def _attempt(action: Callable[[], str]) -> tuple[str, Exception | None]:
    """The result of `action`, or the error that the ranks then agree on."""
    try:
        return action(), None
    except Exception as error:  # raised again on all ranks by _agree
        return "", error


def _native(piece: Piece) -> core.CheckpointPiece:
    return core.CheckpointPiece(
        tensor=piece.tensor,
        role=piece.role,
        dtype=piece.dtype,
        shape=list(piece.shape),
        dim_order=list(piece.dim_order),
        begin=piece.begin,
        end=piece.end,
        address=piece.address,
    )


def _state_text(state: Mapping[str, Any] | None) -> str:
    """JSON text of a state; raises InvalidArgumentError with the reason if it has none."""
    try:
        return json.dumps(dict(state or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        msg = f"[save] the state to save must be JSON: {error}"
        raise core.InvalidArgumentError(msg) from error


def save(
    root: str | Path,
    *,
    step: int,
    pieces: Iterable[Piece],
    ranks: Ranks,
    run: Mapping[str, Any],
    rank_state: Mapping[str, Any] | None = None,
    keep: int | None = None,
) -> Path:
    """Write the checkpoint ``root/step-NNNNNNNN`` and point ``root/latest`` at it. Collective.

    A checkpoint of the same step is replaced. The new one becomes visible by one rename after all
    ranks' data is durable; until then, and after any failure or crash, the previous ones and
    ``latest`` stay as they are.

    Args:
        root: Directory of the run's checkpoints, on a file system that all ranks share.
        step: Optimizer steps done.
        pieces: This rank's pieces. Together the ranks name each element of each tensor once;
            ``replicated`` pieces are shared out.
        ranks: Who saves together.
        run: Same on all ranks: ``mesh`` (text), ``zero_stage`` (int), ``aliases`` (second name of
            a tied parameter to the name under which it is stored), ``state`` (JSON-able).
        rank_state: JSON-able state that only this rank has, such as its random generators.
        keep: How many checkpoints stay, counting this one: nearest steps before it first, then
            nearest after it. None keeps all.

    Returns:
        The new checkpoint's directory.

    Raises:
        CheckpointError: Disk full (with path, bytes needed and free), I/O error, or another job is
            saving there (naming it).
        InvalidArgumentError: A bad piece, elements missing or named twice, state that is no JSON.
    """
    saving: core.CheckpointSaving | None = None

    def begin() -> str:
        nonlocal saving
        _check_run(run)
        if ranks.rank != 0:
            return ""
        saving = core.CheckpointSaving(root=str(root), step=step, save_id=secrets.token_hex(8))
        return saving.tmp_dir

    def write() -> str:
        own = [(_native(piece), piece.replicated) for piece in pieces]
        return core.write_rank_file(
            tmp_dir=tmp_dir,
            rank=ranks.rank,
            world_size=ranks.size,
            pieces=[piece for piece, is_replicated in own if not is_replicated],
            replicated=[piece for piece, is_replicated in own if is_replicated],
            state_json=_state_text(rank_state),
        )

    def commit() -> str:
        if saving is None:
            return ""
        committed = saving.commit(_run_info(run, ranks), records, keep)
        for warning in committed.warnings:
            _log.warning("%s", warning)
        return committed.dir

    try:
        tmp_dir = _agree(ranks, *_attempt(begin))[0]
        records = _agree(ranks, *_attempt(write))
        return Path(_agree(ranks, *_attempt(commit))[0])
    finally:
        if saving is not None:
            _give_up(saving)  # does nothing after a commit


def _give_up(saving: core.CheckpointSaving) -> None:
    """Remove the temporary files of a save that failed."""
    try:
        saving.abort()
    except core.ShoalError as error:
        _log.warning("the next save removes what this one left: %s", error)


def _check_run(run: Mapping[str, Any]) -> None:
    unknown = sorted(run.keys() - {"mesh", "zero_stage", "aliases", "state"})
    if unknown:
        msg = f"[save] run has unknown keys {unknown}; known: mesh, zero_stage, aliases, state"
        raise core.InvalidArgumentError(msg)


def _run_info(run: Mapping[str, Any], ranks: Ranks) -> core.CheckpointRun:
    return core.CheckpointRun(
        shoal_version=__version__,
        torch_version=torch.__version__,
        mesh=run.get("mesh", ""),
        zero_stage=run.get("zero_stage", 0),
        world_size=ranks.size,
        aliases=dict(run.get("aliases", {})),
        state_json=_state_text(run.get("state")),
    )


class Checkpoint:
    """An open checkpoint. Made by `load`; functions with a rank's data are collective.

    Attributes:
        path: Its directory.
        skipped: What `load` passed over to find it, one line each: unfinished saves and the like.
        step: Optimizer steps done when it was saved.
        mesh: The mesh that saved it, as text.
        zero_stage: The ZeRO stage that saved it.
        world_size: How many ranks saved it.
        aliases: Second names of tied parameters to the names under which they are stored.
        state: What `save` was given as ``run["state"]``.
    """

    def __init__(self, path: str, *, skipped: Sequence[str], ranks: Ranks) -> None:
        """Open the checkpoint directory `path`; raises CheckpointError."""
        self._reader = core.CheckpointReader(path)
        self._ranks = ranks
        run = self._reader.run
        self.path = Path(path)
        self.skipped = tuple(skipped)
        self.step: int = self._reader.step
        self.mesh: str = run.mesh
        self.zero_stage: int = run.zero_stage
        self.world_size: int = run.world_size
        self.aliases: dict[str, str] = dict(run.aliases)
        self.state: dict[str, Any] = json.loads(run.state_json)

    def rank_state(self, rank: int) -> dict[str, Any]:
        """What that rank gave `save` as ``rank_state``; KeyError if no such rank saved."""
        states = self._reader.rank_states
        if not 0 <= rank < len(states):
            msg = f"[load] {self.path}: rank {rank} did not save; {len(states)} ranks did"
            raise KeyError(msg)
        state: dict[str, Any] = json.loads(states[rank])
        return state

    def tensors(self) -> dict[tuple[str, str], tuple[str, tuple[int, ...]]]:
        """``(name, role)`` to ``(dtype, shape)`` of everything that is stored."""
        return {(t.name, t.role): (t.dtype, tuple(t.shape)) for t in self._reader.tensors}

    def read(self, tensor: str, *, role: str, begin: int, end: int, address: int) -> None:
        """Copy elements ``[begin, end)`` to host memory. Any range, not only saved pieces.

        Raises:
            CheckpointError: No such tensor, or a damaged piece; names file, tensor and rank.
            InvalidArgumentError: The range is not in the tensor.
        """
        self._reader.read_range(tensor, role=role, begin=begin, end=end, address=address)

    def read_pieces(self, pieces: Iterable[Piece]) -> None:
        """Fill this rank's pieces. Collective: a failure of one rank is raised on all.

        Raises:
            CheckpointError: Tensors that are missing, that nobody asked for (every rank names every
                tensor, if need be by an empty piece), or whose dtype or shape differ, all listed
                together with nearest names; then damaged pieces. Nothing is written before the
                lists have been compared.
        """
        wanted = list(pieces)
        _agree(self._ranks, "", self._mismatch(wanted))

        def read_all() -> str:
            for piece in wanted:
                self.read(
                    piece.tensor,
                    role=piece.role,
                    begin=piece.begin,
                    end=piece.end,
                    address=piece.address,
                )
            return ""

        _agree(self._ranks, *_attempt(read_all))

    def verify(self) -> None:
        """Read everything and check every checksum; raises CheckpointError at the first fault."""
        self._reader.verify()

    def _mismatch(self, wanted: Sequence[Piece]) -> Exception | None:
        stored = {(t.name, t.role): t for t in self._reader.tensors}
        names = [name for name, _ in stored]
        missing: dict[str, None] = {}
        changed: dict[str, None] = {}
        asked = set()
        for piece in wanted:
            key = (self.aliases.get(piece.tensor, piece.tensor), piece.role)
            asked.add(key)
            found = stored.get(key)
            if found is None:
                near = difflib.get_close_matches(piece.tensor, names, n=1)
                hint = f", nearest {near[0]}" if near and near[0] != piece.tensor else ""
                missing[f"{piece.tensor} ({piece.role}){hint}"] = None
                continue
            here = _as_text(piece.dtype, piece.shape, piece.dim_order)
            there = _as_text(found.dtype, found.shape, found.dim_order)
            if here != there:
                changed[
                    f"{piece.tensor} ({piece.role}): {there} in the checkpoint, {here} here"
                ] = None
        unexpected = [f"{name} ({role})" for name, role in stored if (name, role) not in asked]
        lines = [
            *_listed("missing from the checkpoint", list(missing)),
            *_listed("in the checkpoint, but not in the model", unexpected),
            *_listed("different", list(changed)),
        ]
        if not lines:
            return None
        text = "\n  ".join([f"[load] {self.path} does not fit the model:", *lines])
        error: Exception = core.CheckpointError(text)
        return error


def _as_text(dtype: str, shape: Sequence[int], dim_order: Sequence[int]) -> str:
    order = list(dim_order)
    suffix = f" in dim order {order}" if order and order != sorted(order) else ""
    return f"{dtype} {list(shape)}{suffix}"


def _listed(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = f" and {len(items) - _MAX_LISTED} more" if len(items) > _MAX_LISTED else ""
    return [f"{title}: {'; '.join(items[:_MAX_LISTED])}{more}"]


def load(root: str | Path, *, ranks: Ranks | None = None) -> Checkpoint:
    """Open the checkpoint that ``root/latest`` names, or `root` itself if it is one. Collective.

    Where ``latest`` names no complete checkpoint, the highest complete step is taken; what was
    passed over is in `Checkpoint.skipped` and logged.

    Raises:
        CheckpointError: There is none, its index is damaged, or a rank cannot open it.
    """
    together = ranks if ranks is not None else Ranks()

    opened: Checkpoint | None = None

    def find() -> str:
        if together.rank != 0:
            return ""
        path, skipped = core.find_latest_checkpoint(str(root))
        for line in skipped:
            _log.warning("passed over %s", line)
        return json.dumps([path, skipped])

    def open_it() -> str:
        nonlocal opened
        path, skipped = json.loads(found)
        opened = Checkpoint(path, skipped=skipped, ranks=together)
        return ""

    found = _agree(together, *_attempt(find))[0]
    _agree(together, *_attempt(open_it))
    assert opened is not None  # noqa: S101  (_agree raised otherwise)
    return opened
