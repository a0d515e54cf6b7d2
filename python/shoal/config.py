"""The configuration of an engine: one schema, two dialects, one report of all faults.

A document with a top-level ``shoal`` object uses Shoal's defaults, any other is DeepSpeed JSON with
DeepSpeed's defaults. docs/config.md lists every key. Reading a configuration touches no device and
starts no thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from shoal import _core
from shoal.mesh import Mesh

__all__ = ["Config", "explain", "load"]

_DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Config:
    """An effective configuration: typed, checked, immutable.

    Made by `from_file`, `from_dict` or `load`. Its faults come in one `ConfigError` with a line for
    each; what is accepted without effect is listed in `notes`.

    Example:
        >>> config = Config.from_dict({"shoal": {}, "gradient_clipping": 1.0})
        >>> config.compute_dtype, config.gradient_clipping
        (torch.bfloat16, 1.0)
    """

    __slots__ = ("_native",)

    _native: _core.Config

    def __init__(self) -> None:
        """Refuse: a configuration is read, not assembled.

        Raises:
            TypeError: Always.
        """
        msg = "Config is made by Config.from_file, Config.from_dict or shoal.config.load"
        raise TypeError(msg)

    @classmethod
    def _wrap(cls, native: _core.Config) -> Config:
        config = cls.__new__(cls)
        config._native = native
        return config

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Config:
        """Read JSON, also with ``//`` and ``/* */`` comments and trailing commas.

        Raises:
            ConfigError: The file cannot be read, or has faults; the message gives each one's line,
                column, path and remedy.
        """
        return cls._wrap(_core.parse_config_file(fspath(path)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, source: str = "dict") -> Config:
        """Read a dict as if it were a JSON document; dtypes of torch are accepted as values.

        Args:
            values: Keys and values of a document.
            source: What messages call it.

        Raises:
            ConfigError: It has faults, or a value that JSON has not.
        """
        return cls._wrap(
            _core.parse_config_text(_to_json(values, source), source, show_places=False)
        )

    @property
    def source(self) -> str:
        """The file's name, or "dict"."""
        return self._native.source

    @property
    def dialect(self) -> str:
        """``"shoal"`` or ``"deepspeed"``: whose defaults apply."""
        return self._native.dialect

    @property
    def zero_stage(self) -> int:
        """0 to 3."""
        return self._native.zero_stage

    @property
    def compute_dtype(self) -> torch.dtype:
        """Of forward and backward."""
        return _DTYPES[self._native.compute_dtype]

    @property
    def master_dtype(self) -> torch.dtype:
        """Of master weights and optimizer state."""
        return _DTYPES[self._native.master_dtype]

    @property
    def reduce_dtype(self) -> torch.dtype:
        """In which gradients are reduced."""
        return _DTYPES[self._native.reduce_dtype]

    @property
    def accumulate_dtype(self) -> torch.dtype:
        """Of the gradient accumulator."""
        return _DTYPES[self._native.accumulate_dtype]

    @property
    def reduce_group(self) -> str:
        """``"separate"`` or ``"shared"`` process groups for gathers and reduces."""
        return self._native.reduce_group

    @property
    def accumulate(self) -> str:
        """``"reduced"`` or ``"unreduced"`` accumulation at stage 3."""
        return self._native.accumulate

    @property
    def deterministic(self) -> bool:
        """Whether bits are identical from run to run."""
        return self._native.deterministic

    @property
    def non_finite(self) -> str:
        """What happens to a step with a non-finite gradient norm: ``"skip"`` or ``"raise"``."""
        return self._native.non_finite

    @property
    def timeout_s(self) -> float:
        """Seconds until an unanswered collective is an error."""
        return self._native.timeout_s

    @property
    def debug(self) -> bool:
        """Whether ranks compare their order of operations at every gather."""
        return self._native.debug

    @property
    def gradient_clipping(self) -> float:
        """Largest global L2 norm of the gradients; 0 is off."""
        return self._native.gradient_clipping

    @property
    def steps_per_print(self) -> int | None:
        """Optimizer steps between two progress lines; None is silent."""
        return self._native.steps_per_print

    @property
    def mesh(self) -> Mesh:
        """The mesh as written; its ``dp`` may be left for the world size to fill.

        Raises:
            UnsupportedError: ``pp``, ``ep`` or ``sp`` above 1.
        """
        sizes = self._native.mesh
        dp: int | tuple[int, int] | None = sizes.dp
        if sizes.dp is not None and sizes.dp_replicate is not None:
            dp = (sizes.dp_replicate, sizes.dp)
        return Mesh(pp=sizes.pp, dp=dp, ep=sizes.ep, sp=sizes.sp, tp=sizes.tp)

    @property
    def optimizer(self) -> _core.OptimizerConfig:
        """``kind`` ("none", "AdamW", "Adam", "SGD") and its hyper-parameters."""
        return self._native.optimizer

    @property
    def scheduler(self) -> _core.SchedulerConfig:
        """``kind`` ("none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR") and its parameters."""
        return self._native.scheduler

    @property
    def fp16(self) -> _core.Fp16Config:
        """Loss scaling; in force when ``fp16.enabled``."""
        return self._native.fp16

    @property
    def notes(self) -> tuple[str, ...]:
        """What was accepted without effect, mapped from an old name, or may surprise."""
        return tuple(_note_text(note) for note in self._native.notes)

    @property
    def native(self) -> _core.Config:
        """The configuration that native code takes."""
        return self._native

    def batch(
        self, data_parallel_size: int, *, origin: str = "the mesh of this job"
    ) -> _core.BatchSizes:
        """The batch triple for a number of data-parallel ranks.

        Args:
            data_parallel_size: Replicas times shards, at least 1.
            origin: Where that number comes from, for messages.

        Returns:
            ``train_batch`` (samples per optimizer step), ``micro_batch`` (samples per rank and
            backward), ``accumulation`` (backwards per optimizer step). The first two are 0 when
            Shoal's dialect states no batch size.

        Raises:
            ConfigError: The numbers contradict each other; the message gives all of them and the
                nearest valid triples.
        """
        return _core.resolve_batch(self._native, data_parallel_size, origin)

    def describe(self, *, data_parallel_size: int | None = None) -> str:
        """Every effective value with its origin, then the notes, as text.

        Args:
            data_parallel_size: When given, the batch triple for it is included.

        Raises:
            ConfigError: The batch sizes contradict ``data_parallel_size``.
        """
        entries = self._native.effective
        width = max(len(entry.path) for entry in entries)
        lines = [f"{self.source}: dialect {self.dialect}"]
        lines += [
            f"  {entry.path:<{width}} = {entry.value}  ({_origin(entry)})" for entry in entries
        ]
        if data_parallel_size is not None:
            sizes = self.batch(data_parallel_size, origin="the argument data_parallel_size")
            lines.append(f"  batch: {_batch_text(sizes, data_parallel_size)}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Source, dialect and the choices that matter most."""
        return (
            f"Config(source={self.source!r}, dialect={self.dialect!r}, "
            f"zero_stage={self.zero_stage}, compute_dtype={self.compute_dtype})"
        )


def load(config: str | PathLike[str] | Mapping[str, Any] | Config) -> Config:
    """A `Config` from a path, a dict, or a `Config` (returned as it is).

    Raises:
        ConfigError: As `Config.from_file` and `Config.from_dict`.
        TypeError: ``config`` is none of them.
    """
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return Config.from_dict(config)
    if isinstance(config, (str, Path, PathLike)):
        return Config.from_file(config)
    msg = f"config must be a path, a dict or a shoal.Config, found {type(config).__name__}"
    raise TypeError(msg)


def explain(key: str) -> str:
    """What a key means: type, defaults in both dialects, effect.

    Args:
        key: Its path, such as ``"zero_optimization.stage"``.

    Raises:
        ConfigError: There is no such key; the message names the nearest.
    """
    return _core.explain_config(key)


def _note_text(note: _core.ConfigNote) -> str:
    place = f" (line {note.line})" if note.line else ""
    return f"{note.path}{place}: {note.text}"


def _origin(entry: _core.ConfigEntry) -> str:
    if entry.line:
        return f"line {entry.line}"
    return "given" if entry.origin == "file" else entry.origin


def _batch_text(sizes: _core.BatchSizes, data_parallel_size: int) -> str:
    if sizes.micro_batch == 0:
        return f"not stated; accumulation {sizes.accumulation}"
    return (
        f"{sizes.train_batch} = micro batch {sizes.micro_batch} x accumulation "
        f"{sizes.accumulation} x data-parallel size {data_parallel_size}"
    )


def _plain(value: object) -> object:
    """Turns what json does not know into what it does."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, Mapping):
        return dict(value)
    msg = f"{value!r} of type {type(value).__name__} is no JSON value"
    raise TypeError(msg)


def _to_json(values: Mapping[str, Any], source: str) -> str:
    try:
        return json.dumps(dict(values), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"[config] {source}: {error}"
        raise _core.ConfigError(msg) from error
