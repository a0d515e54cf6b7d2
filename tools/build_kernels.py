"""Compiles the device kernels into plain cubin files, one per (op, family, part, architecture).

    tools/build_kernels.py --out build/kernels [--archs "8.0 9.0"] [--op NAME] [--family NAME]

Writes `<out>/<op>/<family>[.<part>].sm_<arch>.cubin` and `<out>/<op>/index.json`. Unchanged
programs come from a cache beside `<out>`. The list of architectures is that of --archs,
SHOAL_CUDA_ARCHS, --cmake-archs, TORCH_CUDA_ARCH_LIST, CUDAARCHS or the default; docs/archs.md says
what a list means. SHOAL_STRICT_ARCHS=1 (or --strict) makes every warning about it an error.
SHOAL_KERNELS_DIR takes prebuilt images instead of compiling.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from kernel_archs import ArchError, ArchList, choose_list
from kernel_compiler import (
    Compiler,
    CompilerError,
    NoCompilerError,
    Program,
    collect_files,
    compile_program,
    find_compiler,
)
from kernel_ops import Op, OpError, Unit, dropped_entries, load_ops, missing_promises, plan

ROOT = Path(__file__).resolve().parent.parent
FORMAT = 1


class BuildError(RuntimeError):
    """The images cannot be made as asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line and what it takes from the environment."""

    root: Path
    out: Path
    cache: Path
    wheels: Path
    archs: ArchList
    ops: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    jobs: int = 2
    strict: bool = False
    lineinfo: bool = False
    allow_spills: bool = False
    without_compiler: bool = False


def say(text: str) -> None:
    """One line to standard output."""
    sys.stdout.write(f"kernels: {text}\n")
    sys.stdout.flush()


def program_of(unit: Unit, options: Options) -> Program:
    """A unit's program: its source and all headers by name, so that no path enters the image."""
    flags = (*unit.family.flags, *(("--generate-line-info",) if options.lineinfo else ()))
    return Program(
        source=unit.part.source,
        files=collect_files(options.root / "src", unit.part.source),
        kernels=unit.part.kernels,
        flags=flags,
    )


def key_of(compiler: Compiler, program: Program, target: str) -> str:
    """Changes whenever the image may change."""
    parts: list[object] = [FORMAT, compiler.kind, compiler.version, compiler.base_flags, target]
    parts += [program.source, dict(program.files), program.kernels, program.flags]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def make_image(
    compiler: Compiler, program: Program, target: str, place: str, allow_spills: bool
) -> float:
    """Compiles into the cache (`place` and `place`.json); returns seconds. Runs in a child."""
    start = time.monotonic()
    image = compile_program(compiler, program, target, allow_spills=allow_spills)
    facts = json.dumps([asdict(kernel) for kernel in image.kernels])
    for path, data in ((Path(place), image.code), (Path(place + ".json"), facts.encode())):
        # Published by a rename, the description last: an interrupted build leaves no half entry.
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_bytes(data)
        partial.replace(path)
    return time.monotonic() - start


def compile_missing(
    units: Sequence[Unit], compiler: Compiler, options: Options
) -> dict[str, tuple[Unit, Path]]:
    """Brings all units into the cache, and says what it cost; the result is by op and file."""
    options.cache.mkdir(parents=True, exist_ok=True)
    places: dict[str, tuple[Unit, Path]] = {}
    todo: dict[Path, tuple[Unit, Program]] = {}
    for unit in units:
        program = program_of(unit, options)
        place = options.cache / key_of(compiler, program, unit.target)
        places[f"{unit.op}/{unit.file}"] = (unit, place)
        if not place.with_name(place.name + ".json").exists():
            todo[place] = (unit, program)
    if not todo:
        return places
    say(f"compiling {len(todo)} of {len(units)} images with {compiler.kind} {compiler.version}")
    # Children, so that a crash of the compiler is an error here and memory returns; fork, since
    # nothing is loaded in this process yet. Big programs first.
    order = sorted(todo.items(), key=lambda item: -len(item[1][0].part.kernels))
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
        futures = [
            (
                unit,
                pool.submit(
                    make_image, compiler, program, unit.target, str(place), options.allow_spills
                ),
            )
            for place, (unit, program) in order
        ]
        errors = []
        for unit, future in futures:
            try:
                say(f"{unit.op}/{unit.file} {future.result():.1f} s")
            except (CompilerError, OSError) as error:
                errors.append(str(error))
    if errors:
        raise BuildError("\n".join(errors))
    return places


def index_of(
    op: Op, images: list[dict[str, object]], compiler: Compiler, options: Options
) -> dict[str, object]:
    """What index.json holds; only facts that do not depend on the machine."""
    return {
        "format": FORMAT,
        "op": op.name,
        "compiler": f"{compiler.kind} {compiler.version}",
        "flags": [*compiler.base_flags, *(["--generate-line-info"] if options.lineinfo else [])],
        "arch_list": options.archs.canonical(),
        "arch_list_source": options.archs.source,
        "families": {f.name: [str(a) for a in f.archs] for f in op.families},
        **op.rows,
        "images": images,
    }


def image_row(unit: Unit, data: bytes, kernels: object) -> dict[str, object]:
    """One image's entry of index.json."""
    return {
        "file": unit.file,
        "family": unit.family.name,
        "part": unit.part.name,
        "arch": unit.arch,
        "kind": "ptx" if unit.is_ptx else "cubin",
        "flags": list(unit.family.flags),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "kernels": kernels,
    }


def publish(
    op: Op,
    places: Mapping[str, tuple[Unit, Path]],
    compiler: Compiler,
    options: Options,
) -> list[str]:
    """Writes one op's folder; the index last. Returns the names of its images."""
    folder = options.out / op.name
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, (unit, place) in sorted(places.items()):
        if unit.op != op.name:
            continue
        data = place.read_bytes()
        target = options.out / name
        if not target.exists() or target.read_bytes() != data:
            target.write_bytes(data)
        kernels = json.loads(place.with_name(place.name + ".json").read_text())
        rows.append(image_row(unit, data, kernels))
    wanted = {str(row["file"]) for row in rows} | {"index.json"}
    for stale in folder.iterdir():
        if stale.name not in wanted:
            stale.unlink()
    text = json.dumps(index_of(op, rows, compiler, options), indent=1) + "\n"
    index = folder / "index.json"
    if not index.exists() or index.read_text() != text:
        index.write_text(text)
    return sorted(wanted - {"index.json"})


def take_prebuilt(source: Path, op: Op, options: Options) -> list[str]:
    """Copies one op's prebuilt images after checking length and hash; returns their names."""
    try:
        index = json.loads((source / op.name / "index.json").read_text())
        names = []
        for row in index["images"]:
            data = (source / op.name / row["file"]).read_bytes()
            if hashlib.sha256(data).hexdigest() != row["sha256"]:
                raise BuildError(f"SHOAL_KERNELS_DIR={source}: {op.name}/{row['file']} is damaged")
            names.append(str(row["file"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(f"SHOAL_KERNELS_DIR={source}: op '{op.name}': {error}") from error
    target = options.out / op.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / op.name, target)
    return names


def check_list(options: Options, complaints: Sequence[str]) -> None:
    """Warns about each complaint; strict: fails with all of them."""
    if options.strict and complaints:
        raise BuildError("strict: " + "\nstrict: ".join(complaints))
    for complaint in complaints:
        say(f"warning: {complaint}")


def build(options: Options, prebuilt: str, environment: Mapping[str, str] = os.environ) -> None:
    """Makes `options.out` as asked.

    Raises:
        BuildError, CompilerError, OpError: if it cannot be made; in strict mode also if anything
            that the list asks for or that the support tables promise would be missing.
    """
    ops = load_ops(options.root, options.ops)
    check_list(options, [*options.archs.complaints, *dropped_entries(ops, options.archs)])
    present: dict[str, list[str]] = {}
    if prebuilt:
        for op in ops:
            present[op.name] = take_prebuilt(Path(prebuilt), op, options)
    else:
        compiler = find_compiler(options.wheels, environment)
        units = [unit for op in ops for unit in plan(op, options.archs, options.families)]
        places = compile_missing(units, compiler, options)
        for op in ops:
            present[op.name] = publish(op, places, compiler, options)
    if not options.families:
        missing = [m for op in ops for m in missing_promises(op, options.archs, present[op.name])]
        check_list(options, missing)
    count = sum(len(names) for names in present.values())
    say(
        f"{count} images of {len(ops)} ops in {options.out} "
        f"({options.archs.canonical()}; list of {options.archs.source})"
    )


def parse_arguments(argv: Sequence[str] | None, environment: Mapping[str, str]) -> Options:
    """The options; ArchError for a list that cannot be used."""
    parser = argparse.ArgumentParser(description="Compile the device kernels.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "kernels")
    parser.add_argument("--archs", default="", help="as -DSHOAL_CUDA_ARCHS")
    parser.add_argument("--cmake-archs", default="", help="CMake's CMAKE_CUDA_ARCHITECTURES")
    parser.add_argument("--op", action="append", default=[], help="only this op (repeatable)")
    parser.add_argument("--family", action="append", default=[], help="only this family")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout with the sources")
    parser.add_argument("--cache", type=Path, help="default: <out>-cache")
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "nvrtc")
    parser.add_argument("--strict", action="store_true", help="as SHOAL_STRICT_ARCHS=1")
    parser.add_argument("--allow-spills", action="store_true", help="while working on a kernel")
    parser.add_argument(
        "--without-compiler",
        action="store_true",
        help="where no device compiler is to be had, say so and succeed (not with --strict)",
    )
    args = parser.parse_args(argv)
    settings = {
        "-DSHOAL_CUDA_ARCHS": args.archs,
        "SHOAL_CUDA_ARCHS": environment.get("SHOAL_CUDA_ARCHS", ""),
        "CMAKE_CUDA_ARCHITECTURES": args.cmake_archs,
        "TORCH_CUDA_ARCH_LIST": environment.get("TORCH_CUDA_ARCH_LIST", ""),
        "CUDAARCHS": environment.get("CUDAARCHS", ""),
    }
    out = args.out.absolute()
    return Options(
        root=args.root.absolute(),
        out=out,
        cache=(args.cache or out.with_name(out.name + "-cache")).absolute(),
        wheels=args.wheels.absolute(),
        archs=choose_list(settings),
        ops=tuple(args.op),
        families=tuple(args.family),
        jobs=args.jobs,
        strict=args.strict or environment.get("SHOAL_STRICT_ARCHS", "") not in {"", "0"},
        lineinfo=environment.get("SHOAL_KERNEL_LINEINFO", "") not in {"", "0"},
        allow_spills=args.allow_spills,
        without_compiler=args.without_compiler,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 with the reason on standard error where it fails."""
    try:
        options = parse_arguments(argv, os.environ)
        try:
            build(options, os.environ.get("SHOAL_KERNELS_DIR", ""))
        except NoCompilerError as error:
            if not options.without_compiler or options.strict:
                raise
            say(f"warning: {error}")
            say("warning: no images are built; on a GPU torch's operators serve (shoal doctor)")
    except (ArchError, OpError, BuildError, CompilerError) as error:
        sys.stderr.write(f"kernels: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
