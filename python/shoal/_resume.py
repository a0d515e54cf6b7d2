"""What a checkpoint of an engine holds, and how an engine continues from one.

Tensors: every parameter's compute copy (role "param"), its master ("master", where it is another
tensor), optimizer state ("exp_avg", ...) and persistent buffers ("buffer"), each rank its own
elements. JSON: counters, updates per parameter, loss scale, the caller's state; per rank the state
of its random generators.
"""

from __future__ import annotations

import base64
import logging
import random
import sys
from typing import TYPE_CHECKING, Any

import torch

from shoal import checkpoint
from shoal._load import core
from shoal.checkpoint import Piece, Ranks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shoal.engine import Engine

_log = logging.getLogger("shoal.engine")


def save(
    engine: Engine, root: str | Path, *, user_state: Mapping[str, Any] | None, keep: int | None
) -> Path:
    """Write one checkpoint; see `Engine.save`."""
    if engine.micro_step != 0:
        msg = (
            f"[save] {engine.micro_step} of {engine.accumulation} micro-batches are accumulated; "
            "save after a boundary"
        )
        raise core.InvalidArgumentError(msg)
    native = engine.native
    held, pieces = _pieces(engine)
    state = {
        "counters": list(native.counters()[:2]),
        "param_updates": list(native.param_updates),
        "loss_scale": _loss_scale_state(native.loss_scaler),
        "user": dict(user_state or {}),
    }
    path = checkpoint.save(
        root,
        step=engine.global_step,
        pieces=pieces,
        ranks=_ranks(engine),
        run={
            "mesh": str(engine.mesh),
            "zero_stage": engine.config.zero_stage,
            "aliases": {alias: name for name, aliases in native.aliases() for alias in aliases},
            "state": state,
        },
        rank_state=_random_state(),
        keep=keep,
    )
    del held  # until here the pieces' memory had to live
    return path


def load(engine: Engine, root: str | Path) -> dict[str, Any]:
    """Continue from a checkpoint; see `Engine.load`."""
    native = engine.native
    opened = checkpoint.load(root, ranks=_ranks(engine))
    live, wanted = _pieces(engine)
    # Read beside the live state: a damaged piece must leave the engine as it was.
    staged = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in live]
    opened.read_pieces(
        Piece(
            tensor=piece.tensor,
            role=piece.role,
            dtype=piece.dtype,
            shape=piece.shape,
            begin=piece.begin,
            end=piece.end,
            address=buffer.data_ptr(),
            dim_order=piece.dim_order,
        )
        for piece, buffer in zip(wanted, staged, strict=True)
    )
    with torch.no_grad():
        for target, value in zip(_live_tensors(engine), staged, strict=True):
            target.copy_(value)
    native.state_loaded()
    state = opened.state
    native.set_counters(*state["counters"])
    native.set_param_updates(state["param_updates"])
    _restore_loss_scale(native.loss_scaler, state["loss_scale"])
    if opened.world_size == engine.world_size:
        _restore_random_state(opened.rank_state(engine.rank))
    else:
        _log.warning(
            "the checkpoint was saved by %d ranks, now there are %d: "
            "random generators go on as they are",
            opened.world_size,
            engine.world_size,
        )
    user: dict[str, Any] = state["user"]
    return user


def _ranks(engine: Engine) -> Ranks:
    return Ranks(
        rank=engine.rank, size=engine.world_size, all_gather_text=engine.native.all_gather_text
    )


def _persistent_buffers(engine: Engine) -> list[tuple[str, torch.Tensor]]:
    persistent = engine.module.state_dict().keys()
    return [(name, b) for name, b in engine.module.named_buffers() if name in persistent]


def _live_tensors(engine: Engine) -> list[torch.Tensor]:
    """The tensors that `_pieces` describes, in its order, where they live."""
    owned = [data for _, _, data, *_ in engine.native.state_pieces()]
    return owned + [buffer for _, buffer in _persistent_buffers(engine)]


def _pieces(engine: Engine) -> tuple[list[torch.Tensor], list[Piece]]:
    """This rank's pieces, and the host tensors that hold their elements."""
    held: list[torch.Tensor] = []
    pieces: list[Piece] = []
    strides = {name: param for name, param in engine.module.named_parameters()}
    for name, role, data, shape, begin, replicated in engine.native.state_pieces():
        host = data.cpu()
        held.append(host)
        pieces.append(
            Piece(
                tensor=name,
                role=role,
                dtype=str(host.dtype).removeprefix("torch."),
                shape=shape,
                begin=begin,
                end=begin + host.numel(),
                address=host.data_ptr(),
                replicated=replicated,
                dim_order=_dim_order(strides[name]),
            )
        )
    for name, buffer in _persistent_buffers(engine):
        host = buffer.detach().cpu().contiguous()
        held.append(host)
        pieces.append(
            Piece(
                tensor=name,
                role="buffer",
                dtype=str(host.dtype).removeprefix("torch."),
                shape=tuple(host.shape),
                begin=0,
                end=host.numel(),
                address=host.data_ptr(),
                replicated=True,
            )
        )
    return held, pieces


def _dim_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Dims from slowest to fastest varying; empty for row-major."""
    if tensor.is_contiguous():
        return ()
    return tuple(sorted(range(tensor.dim()), key=lambda dim: -tensor.stride()[dim]))


def _loss_scale_state(scaler: Any) -> dict[str, Any] | None:  # noqa: ANN401
    if scaler is None:
        return None
    state = scaler.state
    return {
        name: getattr(state, name)
        for name in ("scale", "num_updates", "last_overflow", "hysteresis")
    }


def _restore_loss_scale(scaler: Any, saved: Mapping[str, Any] | None) -> None:  # noqa: ANN401
    if scaler is None or saved is None:
        return
    state = core.LossScaleState()
    for name, value in saved.items():
        setattr(state, name, value)
    scaler.set_state(state)


def _encode(state: torch.Tensor) -> str:
    return base64.b64encode(bytes(state.cpu().tolist())).decode()


def _decode(text: str) -> torch.Tensor:
    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)


def _accelerator() -> Any:  # noqa: ANN401  (a module of torch)
    """torch's module of the accelerator in use (it has the generators), or None."""
    if not torch.accelerator.is_available():
        return None
    kind = torch.accelerator.current_accelerator()
    return None if kind is None else getattr(torch, kind.type)


def _random_state() -> dict[str, Any]:
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "torch": _encode(torch.get_rng_state()),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = [name, keys.tolist(), position, has_gauss, cached]
    device = _accelerator()
    if device is not None:
        state["device"] = _encode(device.get_rng_state())
    return state


def _restore_random_state(state: Mapping[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(_decode(state["torch"]))
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        name, keys, *rest = state["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), *rest))
    device = _accelerator()
    if device is not None and "device" in state:
        device.set_rng_state(_decode(state["device"]))
