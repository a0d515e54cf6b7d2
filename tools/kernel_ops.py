"""Reads `src/shoal/kernels/<op>/op.json` and says which images an architecture list asks for."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_archs import Arch, ArchError, ArchList, family_archs, parse_arch

KERNELS = Path("src/shoal/kernels")
OP_KEYS = {"op", "families", "promise", "not_offered"}
FAMILY_KEYS = {"archs", "ptx", "parts", "source", "kernels", "flags"}
PART_KEYS = {"source", "kernels"}
PROMISE_KEYS = {"dtype", "families", "from", "to", "head_dims"}
NOT_OFFERED_KEYS = {"dtype", "below", "why"}


class OpError(ValueError):
    """An op.json that breaks a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One program of a family: `name` is empty where the family is one program."""

    name: str
    source: str
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One specialisation of an op's kernels."""

    name: str
    archs: tuple[Arch, ...]
    ptx: str | None
    parts: tuple[Part, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """On devices `first` to `last`, `dtype` is served by the first of `families` with an image."""

    dtype: str
    families: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One op.json. `rows` holds `promise` and `not_offered` as they stand, for the index."""

    name: str
    families: tuple[Family, ...]
    promises: tuple[Promise, ...]
    not_offered: Mapping[str, int]
    rows: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One image to be made: file name and compiler target follow from it."""

    op: str
    family: Family
    part: Part
    target: str

    @property
    def file(self) -> str:
        """`sm80.forward.sm_90.cubin`, `generic.compute_70.ptx`."""
        stem = ".".join([self.family.name, *([self.part.name] if self.part.name else [])])
        return f"{stem}.{self.target}.{'ptx' if self.is_ptx else 'cubin'}"

    @property
    def is_ptx(self) -> bool:
        """Whether the driver compiles the image at load."""
        return self.target.startswith("compute_")

    @property
    def arch(self) -> str:
        """`90a` of `sm_90a`."""
        return self.target.partition("_")[2]


def _require_keys(where: str, value: Mapping[str, object], allowed: set[str]) -> None:
    unknown = sorted(set(value) - allowed)
    if unknown:
        raise OpError(f"{where}: unknown key '{unknown[0]}' (there are: {sorted(allowed)})")


def _family(where: str, folder: str, name: str, value: dict[str, object]) -> Family:
    _require_keys(where, value, FAMILY_KEYS)
    raw = value.get("parts")
    if raw is None:
        raw = {"": {k: value[k] for k in PART_KEYS if k in value}}
    elif "source" in value or "kernels" in value:
        raise OpError(f"{where}: 'parts' beside 'source' or 'kernels'")
    parts = []
    assert isinstance(raw, dict)  # noqa: S101
    for part, fields in sorted(raw.items()):
        _require_keys(f"{where}.{part}", fields, PART_KEYS)
        if not fields.get("source") or not fields.get("kernels"):
            raise OpError(f"{where}.{part}: needs 'source' and 'kernels'")
        if len(set(fields["kernels"])) != len(fields["kernels"]):
            raise OpError(f"{where}.{part}: a kernel is listed twice")
        source = f"shoal/kernels/{folder}/{fields['source']}"
        parts.append(Part(name=part, source=source, kernels=tuple(fields["kernels"])))
    archs = value.get("archs", [])
    assert isinstance(archs, list)  # noqa: S101
    flags = value.get("flags", [])
    assert isinstance(flags, list)  # noqa: S101
    ptx = value.get("ptx")
    if ptx is not None and not str(ptx).startswith("compute_"):
        raise OpError(f"{where}.ptx: '{ptx}' is no virtual architecture (write compute_80)")
    return Family(
        name=name,
        archs=tuple(sorted(parse_arch(a) for a in archs)),
        ptx=None if ptx is None else str(ptx),
        parts=tuple(parts),
        flags=tuple(flags),
    )


def parse_op(text: str, folder: str) -> Op:
    """Reads one op.json of the folder `folder`.

    Raises:
        OpError: naming the key, for JSON that is malformed or breaks a rule of the room's README.
    """
    where = f"{KERNELS}/{folder}/op.json"
    try:
        value = json.loads(text)
        _require_keys(where, value, OP_KEYS)
        families = tuple(
            _family(f"{where}: families.{name}", folder, name, fields)
            for name, fields in sorted(value["families"].items())
        )
        promises = []
        for row in value.get("promise", []):
            _require_keys(f"{where}: promise", row, PROMISE_KEYS)
            missing = set(row["families"]) - {f.name for f in families}
            if missing:
                raise OpError(f"{where}: promise names family '{min(missing)}', which is nowhere")
            first, last = int(row["from"]), int(row.get("to", "121"))
            names = tuple(row["families"])
            promises.append(Promise(dtype=row["dtype"], families=names, first=first, last=last))
        not_offered = {}
        for row in value.get("not_offered", []):
            _require_keys(f"{where}: not_offered", row, NOT_OFFERED_KEYS)
            not_offered[row["dtype"]] = int(row["below"])
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise OpError(f"{where}: {error!r}") from error
    except (json.JSONDecodeError, ArchError) as error:
        raise OpError(f"{where}: {error}") from error
    if value["op"] != folder:
        raise OpError(f"{where}: op '{value['op']}' is not the folder's name")
    return Op(
        name=folder,
        families=families,
        promises=tuple(promises),
        not_offered=not_offered,
        rows={key: value.get(key, []) for key in ("promise", "not_offered")},
    )


def load_ops(root: Path, only: Iterable[str] = ()) -> list[Op]:
    """All ops of a checkout in order of their names, or the named ones."""
    found = {p.parent.name: p for p in sorted((root / KERNELS).glob("*/op.json"))}
    wanted = list(only) or list(found)
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise OpError(f"no op '{unknown[0]}' (there are: {', '.join(found)})")
    return [parse_op(found[name].read_text(), name) for name in sorted(set(wanted))]


def plan(op: Op, archs: ArchList, families: Iterable[str] = ()) -> list[Unit]:
    """The images that a list asks for, in order of their file names."""
    only = set(families)
    units = []
    for family in op.families:
        if only and family.name not in only:
            continue
        targets = [f"sm_{a}" for a in family_archs(family.archs, archs.entries)]
        if archs.ptx and family.ptx:
            targets.append(family.ptx)
        units += [
            Unit(op=op.name, family=family, part=part, target=target)
            for target in targets
            for part in family.parts
        ]
    return sorted(units, key=lambda unit: unit.file)


def dropped_entries(ops: Iterable[Op], archs: ArchList) -> Iterator[str]:
    """Entries from which nothing is built for any op."""
    known = list(ops)
    for entry in archs.entries:
        if not any(family_archs(f.archs, [entry]) for op in known for f in op.families):
            yield (
                f"{archs.source}: entry '{entry}' is dropped: no op has an image for it"
                + (f"; write {entry.number} for the device" if entry.suffix else "")
            )
    if archs.ptx and not any(f.ptx for op in known for f in op.families):
        yield f"{archs.source}: entry '+PTX' is dropped: no op has PTX"


def missing_promises(op: Op, archs: ArchList, files: Iterable[str]) -> Iterator[str]:
    """Promised (op, dtype) of the list's devices that no image among `files` serves."""
    present = set(files)

    def images(family: Family, device: Arch) -> list[str]:
        return [
            Unit(op=op.name, family=family, part=part, target=f"sm_{arch}").file
            for arch in family_archs(family.archs, [device])
            for part in family.parts
        ]

    by_name = {f.name: f for f in op.families}
    for device in archs.entries:
        for promise in op.promises:
            if not promise.first <= device.number <= promise.last:
                continue
            if device.number < op.not_offered.get(promise.dtype, 0):
                continue
            wanted = [file for name in promise.families for file in images(by_name[name], device)]
            where = f"device {device.major}.{device.number % 10}{device.suffix}"
            for file in wanted:
                if file not in present:
                    yield f"op '{op.name}', {promise.dtype} on {where}: image {file} is missing"
            if not wanted and not device.suffix:
                yield f"op '{op.name}', {promise.dtype} is promised on {where}: no family has it"
