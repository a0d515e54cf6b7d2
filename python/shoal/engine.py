"""Engine: trains a model sharded over ranks."""

from __future__ import annotations

import logging
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from shoal import _groups, _resume
from shoal._load import core
from shoal._units import all_buffers, plan_units
from shoal.config import Config, load
from shoal.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_OWNER = "_shoal_owner"
_log = logging.getLogger("shoal.engine")


class Engine:
    """Trains one model over the ranks of a mesh, ZeRO stages 0-3.

    The model stays the caller's: parameters keep identity, shape and strides; dtype and device
    change once, here. Floating-point parameters and buffers get the compute dtype; rank 0's values
    win. Construction is collective; a failed one leaves the model as it was.

    Args:
        model: the module to train. Its parameters must not belong to another open engine.
        config: a path, a dict or a `shoal.Config`.
        mesh: the ranks; default all of them on one data-parallel axis.
        units: module classes, class names or module names whose parameters are gathered together;
            default: transformers' `_no_split_modules`, else the children of ModuleLists.
        param_groups: like torch's: dicts with "params" and the options that differ from the
            config's optimizer ("lr", "weight_decay", "beta1", "beta2", "eps", "momentum",
            "dampening"). Parameters that no group names form the first group.
        device: where to train; default the accelerator of the local rank, else the CPU.

    Raises:
        ValueError: bad arguments, a model that another engine owns, ranks that differ.
        shoal.UnsupportedError: a legal request that this version cannot serve.
        shoal.CollectiveTimeout: a rank failed or did not answer in `timeout_s`.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        config: str | Path | Mapping[str, Any] | Config,
        mesh: Mesh | None = None,
        units: Sequence[type[nn.Module] | str] | None = None,
        param_groups: Sequence[Mapping[str, Any]] | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self._config = load(config)
        world = _groups.world_size()
        self._mesh = _resolve_mesh(mesh, self._config, world)
        batch = self._config.batch(self._mesh.size)
        self._accumulation: int = batch.accumulation
        self._device = torch.device(device) if device is not None else _groups.choose_device()
        self._module = model
        self._hooks: list[Any] = []
        self._closed = False
        _require_unowned(model)
        _require_deterministic_torch(self._config, self._device)
        plans = plan_units(model, units)
        overrides, group_of = _group_indices(param_groups, model)
        self._groups = _groups.make_groups(
            self._mesh.ranks,
            device=self._device,
            shared=self._config.reduce_group == "shared",
            timeout_s=self._config.timeout_s,
        )
        try:
            self._core = core.Engine.create(
                self._config.native,
                str(self._device),
                self._accumulation,
                overrides,
                [
                    (
                        plan.name,
                        [(p.name, p.aliases, p.tensor, group_of(p.tensor)) for p in plan.params],
                    )
                    for plan in plans
                ],
                all_buffers(model),
                self._groups.names,
            )
        except BaseException:
            self._groups.destroy()
            raise
        for param in model.parameters():
            setattr(param, _OWNER, weakref.ref(self))
        self._install_hooks([plan.entries for plan in plans])

    def _install_hooks(self, entries: list[list[nn.Module]]) -> None:
        native = self._core
        add = self._hooks.append
        for unit, modules in enumerate(entries):
            for module in modules:
                pre = native.unit_pre_forward(unit)
                post = native.unit_post_forward(unit)
                add(module.register_forward_pre_hook(pre, with_kwargs=True, prepend=True))
                add(module.register_forward_hook(post, always_call=True))
        pre = native.model_pre_forward()
        add(self._module.register_forward_pre_hook(pre, prepend=True))
        add(self._module.register_forward_hook(native.model_post_forward(), always_call=True))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (what the model gives)
        """Run the model's forward."""
        if self._closed:
            msg = "[forward] the engine is closed"
            raise core.ShoalError(msg)
        return self._module(*args, **kwargs)

    @property
    def module(self) -> nn.Module:
        """The model that was given."""
        return self._module

    @property
    def config(self) -> Config:
        """The effective configuration."""
        return self._config

    @property
    def mesh(self) -> Mesh:
        """The resolved mesh."""
        return self._mesh

    @property
    def device(self) -> torch.device:
        """Where this rank's parameters live."""
        return self._device

    @property
    def rank(self) -> int:
        """This process's rank in the engine's data-parallel group."""
        return int(self._core.rank)

    @property
    def world_size(self) -> int:
        """Ranks of the engine's data-parallel group."""
        return int(self._core.world_size)

    def backward(
        self, loss: torch.Tensor, *, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Back-propagate a scalar loss.

        Gradients are averaged over ranks and over the micro-batches of a step: do not divide the
        loss. A bare `loss.backward()` does the same, except for the loss scale of fp16. The options
        are those of torch.autograd.backward. Several backwards may come before one `step()`.
        """
        if loss.numel() != 1:
            msg = f"[backward] the loss must be a scalar, found shape {tuple(loss.shape)}"
            raise ValueError(msg)
        self._core.begin_backward()
        try:
            scale = self._core.loss_scale
            gradient = None if scale == 1.0 else torch.full_like(loss, scale)
            torch.autograd.backward(
                loss, gradient, retain_graph=retain_graph or create_graph, create_graph=create_graph
            )
            self._core.end_backward()
        except BaseException:
            self._abort_backward()
            raise

    def _abort_backward(self) -> None:
        """Clean up after a failed backward; the failure itself is what the caller must see."""
        try:
            self._core.abort_backward()
        except core.ShoalError:
            return  # a collective failed: the error under way says so, nothing can be waited for

    def step(self) -> bool:
        """Count a micro-batch; at the boundary of accumulation update the parameters.

        Returns True if an update was applied (False within accumulation, or when skipped because
        the gradient norm was not finite).
        """
        boundary = self.is_boundary
        applied = bool(self._core.step())
        every = self._config.steps_per_print
        if boundary and every and self.rank == 0 and self.global_step % every == 0:
            _log.info(
                "step %d: lr %s, gradient norm %.4g, loss scale %g, %d steps skipped",
                self.global_step,
                ", ".join(f"{rate:.4g}" for rate in self.get_lr()),
                self.grad_norm,
                self.loss_scale,
                self.skipped_steps,
            )
        return applied

    def reset(self) -> None:
        """Drop gradients and state of a failed forward or backward."""
        self._core.reset()

    def train(self, mode: bool = True) -> Self:
        """Set training mode; returns the engine."""
        self._module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode; returns the engine."""
        return self.train(mode=False)

    @property
    def is_boundary(self) -> bool:
        """Whether the next `step()` updates."""
        return bool(self._core.is_boundary)

    @property
    def accumulation(self) -> int:
        """Micro-batches per step."""
        return self._accumulation

    @property
    def global_step(self) -> int:
        """Updates applied so far."""
        return int(self._core.counters()[0])

    @property
    def skipped_steps(self) -> int:
        """Steps skipped because the gradient norm was not finite."""
        return int(self._core.counters()[1])

    @property
    def micro_step(self) -> int:
        """Micro-batches of the step under way."""
        return int(self._core.counters()[2])

    @property
    def was_step_applied(self) -> bool:
        """Whether the last boundary updated the parameters."""
        return bool(self._core.was_step_applied)

    @property
    def grad_norm(self) -> float:
        """Global norm of the averaged gradients at the last boundary, before clipping."""
        return float(self._core.grad_norm)

    @property
    def loss_scale(self) -> float:
        """The loss scale of fp16, else 1.0."""
        return float(self._core.loss_scale)

    @property
    def lr(self) -> float:
        """Learning rate of the next update, first parameter group."""
        rates = self.get_lr()
        return rates[0] if rates else 0.0

    def get_lr(self) -> list[float]:
        """Learning rate of the next update, per parameter group."""
        return list(self._core.learning_rates)

    @contextmanager
    def unsharded(self) -> Iterator[nn.Module]:
        """Make all full parameters readable; what is written into them is kept.

        Collective. Every rank must write the same values.
        """
        self._core.unshard()
        try:
            yield self._module
        finally:
            self._core.reshard_and_absorb()

    def full_state_dict(self, *, rank0_only: bool = False) -> dict[str, torch.Tensor]:
        """Full parameters (compute dtype) and buffers on the CPU, by name. Collective.

        With `rank0_only` the other ranks get an empty dict.
        """
        keep = self.rank == 0 or not rank0_only
        state = dict(self._core.full_state("param", keep))
        if keep:
            persistent = self._module.state_dict().keys()
            for name, buffer in self._module.named_buffers(remove_duplicate=False):
                if name in persistent:
                    state[name] = buffer.detach().cpu().clone()
        return state

    def full_master_state_dict(self, *, rank0_only: bool = False) -> dict[str, torch.Tensor]:
        """Trained parameters in the master dtype on the CPU, by name. Collective."""
        keep = self.rank == 0 or not rank0_only
        return dict(self._core.full_state("master", keep))

    def full_optimizer_state(
        self, *, rank0_only: bool = False
    ) -> dict[str, dict[str, torch.Tensor]]:
        """Optimizer state by parameter name, then by state name ("exp_avg", ...). Collective."""
        keep = self.rank == 0 or not rank0_only
        result: dict[str, dict[str, torch.Tensor]] = {}
        for role in self._core.state_names:
            for name, tensor in self._core.full_state(role, keep):
                result.setdefault(name, {})[role] = tensor
        return result

    def grad(self, param: nn.Parameter) -> torch.Tensor | None:
        """Full gradient of a parameter since the last step, averaged, on the CPU. Collective.

        None for a frozen parameter.
        """
        for name, candidate in self._module.named_parameters():
            if candidate is param:
                result: torch.Tensor | None = self._core.full_gradient(name)
                return result
        msg = "[grad] the argument is no parameter of the engine's model"
        raise ValueError(msg)

    def save(
        self,
        root: str | Path,
        *,
        user_state: Mapping[str, Any] | None = None,
        keep: int | None = None,
    ) -> Path:
        """Write a checkpoint `root/step-NNNNNNNN` and point `root/latest` at it. Collective.

        Args:
            root: directory of the run's checkpoints.
            user_state: JSON-able state of the caller, returned by `load`.
            keep: how many checkpoints to keep, counting this one; default all.
        """
        return _resume.save(self, root, user_state=user_state, keep=keep)

    def load(self, root: str | Path) -> dict[str, Any]:
        """Continue from `root` (or from one of its step directories); returns the user state.

        Collective. Raises shoal.CheckpointError when nothing complete is there, when a piece is
        damaged, or when the layout is another one.
        """
        return _resume.load(self, root)

    def memory(self) -> dict[str, int]:
        """Bytes on this rank by kind, as allocated.

        Keys: params, master, optimizer, gradients, arena, overflow_peak, overflow_count, padding.
        """
        return dict(self._core.memory())

    def comm_counts(self) -> dict[str, dict[str, int]]:
        """Collectives issued so far: operation name to {"count", "bytes"}."""
        return dict(self._core.comm_counts())

    def reset_comm_counts(self) -> None:
        """Start `comm_counts` anew."""
        self._core.reset_comm_counts()

    def describe(self) -> dict[str, Any]:
        """What the engine is: mesh, units with segments and padding, arena, memory, traffic."""
        return {
            "mesh": str(self._mesh),
            "device": str(self._device),
            "zero_stage": self._config.zero_stage,
            "units": list(self._core.units()),
            "arena": self._core.arena_plan,
            "memory": self.memory(),
            "comm": self.comm_counts(),
        }

    def close(self) -> None:
        """Give groups and hooks back. Idempotent; use as a context manager does the same."""
        if self._closed:
            return
        self._closed = True
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for param in self._module.parameters():
            if hasattr(param, _OWNER):
                delattr(param, _OWNER)
        try:
            self._core.close()
        finally:
            self._groups.destroy()

    def __enter__(self) -> Self:
        """Return the engine."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the engine."""
        self.close()

    @property
    def native(self) -> Any:  # noqa: ANN401  (the extension module carries no types)
        """The native engine, for Shoal's own modules and benchmarks."""
        return self._core


def _resolve_mesh(mesh: Mesh | None, config: Config, world: int) -> Mesh:
    wanted = mesh if mesh is not None else config.mesh
    resolved = wanted.resolve(world)
    for axis, size in resolved.axes.items():
        if size > 1 and axis not in {"dp", "dp_shard"}:
            msg = (
                f"[engine] mesh {resolved}: axis {axis!r} has size {size}; "
                "this version shards over one data-parallel axis only"
            )
            raise core.UnsupportedError(msg)
    if _groups.world_rank() not in resolved:
        msg = f"[engine] rank {_groups.world_rank()} is not in the mesh {resolved}"
        raise ValueError(msg)
    return resolved


def _require_unowned(model: nn.Module) -> None:
    for name, param in model.named_parameters():
        owner = getattr(param, _OWNER, None)
        if owner is not None and owner() is not None:
            msg = f"[engine] parameter {name!r} is owned by another engine; close() that one first"
            raise ValueError(msg)


def _require_deterministic_torch(config: Config, device: torch.device) -> None:
    """Refuse `deterministic` where torch's own kernels would break the promise.

    Shoal's operations always give the same bits; on the CPU torch's do too.
    """
    if (
        config.deterministic
        and device.type != "cpu"
        and not torch.are_deterministic_algorithms_enabled()
    ):
        msg = (
            f"[engine] deterministic=true on {device.type} needs "
            "torch.use_deterministic_algorithms(True), which is the process's to set: call it first"
        )
        raise ValueError(msg)


def _group_indices(
    param_groups: Sequence[Mapping[str, Any]] | None, model: nn.Module
) -> tuple[list[dict[str, float]], Any]:
    """Options per group, and a function from a parameter to its group's index."""
    known = {id(param) for param in model.parameters()}
    index_of: dict[int, int] = {}
    overrides: list[dict[str, float]] = [{}]
    for group in param_groups or ():
        options = {key: float(value) for key, value in group.items() if key != "params"}
        overrides.append(options)
        for param in group["params"]:
            if id(param) not in known:
                msg = (
                    f"[engine] param_groups[{len(overrides) - 2}] has a parameter "
                    "that is not in the model"
                )
                raise ValueError(msg)
            if id(param) in index_of:
                first, second = index_of[id(param)] - 1, len(overrides) - 2
                msg = f"[engine] a parameter is in param_groups {first} and {second}"
                raise ValueError(msg)
            index_of[id(param)] = len(overrides) - 1
    return overrides, lambda param: index_of.get(id(param), 0)
