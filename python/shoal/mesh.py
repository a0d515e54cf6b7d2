"""Which rank sits where: named axes over a list of ranks.

Axes, outermost first: ``pp`` (pipeline), ``dp`` (data), ``sp`` (sequence), ``tp`` (tensor;
neighbouring ranks). ``ep`` (expert) divides ``dp`` and is no factor of the size. Sizes above 1 of
``pp``, ``ep`` and ``sp`` are not implemented yet and raise `UnsupportedError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from shoal import _core

__all__ = ["Mesh"]

_FIELDS = ("pp", "dp", "ep", "sp", "tp")


class Mesh:
    """An immutable value: equality, hash, slicing and printing, but no process group.

    Args:
        pp: Pipeline stages.
        dp: Data-parallel ranks; ``(replicate, shard)`` shards inside groups of ``shard``
            neighbours and replicates across them; None takes what the other axes leave of the world
            size, see `resolve`.
        ep: Expert-parallel ranks; divides ``dp``.
        sp: Sequence-parallel ranks.
        tp: Tensor-parallel ranks.
        ranks: The ranks of the mesh in mesh order (``tp`` fastest); None means 0, 1, ...

    Raises:
        InvalidArgumentError: A size below 1, sizes that contradict each other or ``ranks``, or
            repeated ranks.
        UnsupportedError: ``pp``, ``ep`` or ``sp`` above 1.
        TypeError: A size or rank is not an integer.

    Example:
        >>> mesh = Mesh(dp=2, tp=2)
        >>> str(mesh), mesh["tp"]
        ('dp=2,tp=2', ((0, 1), (2, 3)))
    """

    __slots__ = ("_native", "_spec")

    _spec: _core.MeshSpec
    _native: _core.Mesh | None

    def __init__(
        self,
        *,
        pp: int = 1,
        dp: int | tuple[int, int] | None = None,
        ep: int = 1,
        sp: int = 1,
        tp: int = 1,
        ranks: Sequence[int] | None = None,
    ) -> None:
        """Check the sizes as far as they are known; see the class for the arguments."""
        spec = _core.MeshSpec()
        spec.pp, spec.ep, spec.sp, spec.tp = pp, ep, sp, tp
        spec.dp = _dp_levels(dp)
        spec.ranks = None if ranks is None else list(ranks)
        self._spec = spec
        # Without a world size, check against the smallest one that can hold the mesh.
        native = _core.Mesh.make(spec, _smallest_world(spec))
        self._native = None if dp is None and ranks is None else native

    @property
    def is_resolved(self) -> bool:
        """Whether every size is known: always, unless both ``dp`` and ``ranks`` were left out."""
        return self._native is not None

    def resolve(self, world_size: int) -> Mesh:
        """The same mesh for a job of ``world_size`` ranks, with ``dp`` filled in.

        Raises:
            InvalidArgumentError: The mesh does not fit ``world_size``.
        """
        native = _core.Mesh.make(self._spec, world_size)
        if self._native is not None:
            return self
        resolved = Mesh.__new__(Mesh)
        resolved._spec = self._spec
        resolved._native = native
        return resolved

    @property
    def native(self) -> _core.Mesh:
        """The mesh that native code takes.

        Raises:
            InvalidArgumentError: The mesh is not resolved.
        """
        if self._native is None:
            raise _core.InvalidArgumentError(
                "[mesh] the size of dp is not known yet, "
                f"call resolve(world_size) first (mesh {self})"
            )
        return self._native

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.native.size

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks in mesh order: ``tp`` varies fastest."""
        return tuple(self.native.ranks)

    @property
    def axes(self) -> dict[str, int]:
        """Sizes by axis, outermost first; a two-level dp is ``dp_replicate`` and ``dp_shard``."""
        return dict(self.native.axes)

    def axis_size(self, axis: str) -> int:
        """The size of ``axis``: pp, dp, dp_replicate, dp_shard, ep, sp or tp."""
        return self.native.axis_size(axis)

    def __getitem__(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """The groups of ranks along ``axis``; together they hold every rank once."""
        return tuple(tuple(group) for group in self.native.slice(axis))

    def group_of(self, axis: str, *, rank: int) -> tuple[int, ...]:
        """The group along ``axis`` that holds ``rank``."""
        return tuple(self.native.group_of(axis, rank))

    def coordinates_of(self, rank: int) -> dict[str, int]:
        """The index of ``rank`` along each of `axes`."""
        return dict(self.native.coordinates_of(rank))

    def __contains__(self, rank: int) -> bool:
        """Whether the mesh holds ``rank``."""
        return rank in self.native

    def __str__(self) -> str:
        """``dp=4,tp=2``: the axes above 1, then ``@[ranks]`` unless these are 0, 1, ..."""
        if self._native is not None:
            return str(self._native)
        tp = self._spec.tp
        return f"dp=?,tp={tp}" if tp > 1 else "dp=?"

    def __repr__(self) -> str:
        """An expression that gives an equal mesh."""
        shown = [(k, v) for k, v in self._arguments().items() if k == "dp" or v != 1]
        return f"Mesh({', '.join(f'{k}={v!r}' for k, v in shown)})"

    def __eq__(self, other: object) -> bool:
        """Same axes, same ranks in the same order."""
        return self._key() == other._key() if isinstance(other, Mesh) else NotImplemented

    def __hash__(self) -> int:
        """Equal for equal meshes."""
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the arguments that give an equal mesh."""
        return _from_arguments, (self._arguments(),)

    def _arguments(self) -> dict[str, Any]:
        """What makes an equal mesh; ``ranks`` only where they are not 0, 1, ..."""
        if self._native is None:
            return {"dp": None, "tp": self._spec.tp}
        axes = self._native.axes
        dp = (axes["dp_replicate"], axes["dp_shard"]) if self._native.is_hybrid else axes["dp"]
        sizes = {
            "pp": axes["pp"],
            "dp": dp,
            "ep": self._spec.ep,
            "sp": axes["sp"],
            "tp": axes["tp"],
        }
        arguments: dict[str, Any] = {field: sizes[field] for field in _FIELDS}
        if self.ranks != tuple(range(self.size)):
            arguments["ranks"] = self.ranks
        return arguments

    def _key(self) -> tuple[object, ...]:
        return tuple(self._arguments().items())


def _from_arguments(arguments: dict[str, Any]) -> Mesh:
    return Mesh(**arguments)


def _dp_levels(dp: int | tuple[int, int] | None) -> list[int]:
    if dp is None:
        return []
    if isinstance(dp, SupportsIndex):
        return [dp.__index__()]
    if isinstance(dp, tuple | list) and len(dp) == 2:
        return list(dp)
    raise TypeError(f"[mesh] dp is {dp!r}, must be a size, (replicate, shard) or None")


def _smallest_world(spec: _core.MeshSpec) -> int:
    """The world size to check ``spec`` against before the real one is known."""
    if spec.ranks:
        return max(max(spec.ranks) + 1, 1)
    size = spec.pp * spec.sp * spec.tp
    for level in spec.dp or [spec.ep]:
        size *= level
    return min(max(size, 1), _core.MAX_WORLD_SIZE)
