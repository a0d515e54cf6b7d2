"""Runs clang-tidy over src/shoal, skipping files that were clean before and have not changed.

    tools/clang_tidy.py [--build BUILD_DIR] [--jobs N] [FILE_PART ...]

"Changed" is a fingerprint of clang-tidy's version, .clang-tidy, the compile command, the file and
every header of the project that it includes, directly or not. Fingerprints of clean files are
kept in build/tidy. With FILE_PART only the files whose path contains one of the parts are looked
at.
"""

import argparse
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "tidy"
CLEAN = CACHE / "clean"
TIDY = Path(sys.executable).parent / "clang-tidy"
INCLUDE = re.compile(r'^\s*#\s*include\s+"(shoal/[^"]+)"', re.MULTILINE)
# Flags that g++ knows and clang does not.
GCC_ONLY = re.compile(r"^(-fno-fat-lto-objects|-flto.*|-fsanitize=.*|-Wno-maybe-uninitialized)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One entry of the compilation database, its command in clang's terms."""

    file: Path
    directory: str
    arguments: tuple[str, ...]


def load_units(build: Path) -> list[Unit]:
    """The units of src/shoal in a build's compilation database, tests left out.

    Tests are compiled with all warnings and formatted like the rest; tidy's naming and size rules
    are for the code that they test.
    """
    units = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if not file.is_relative_to(ROOT / "src") or file.stem.endswith(
            ("_test", "_bench", "_fuzz")
        ):
            continue
        arguments = shlex.split(entry["command"])
        if Path(arguments[0]).name == "ccache":
            del arguments[0]
        arguments = [a for a in arguments if not GCC_ONLY.match(a)]
        units[file] = Unit(file=file, directory=entry["directory"], arguments=tuple(arguments))
    return [units[file] for file in sorted(units)]


@functools.cache
def file_digest(path: Path) -> str:
    """The fingerprint of one file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def project_includes(path: Path) -> frozenset[Path]:
    """The project's headers that a file includes directly."""
    found = (ROOT / "src" / name for name in INCLUDE.findall(path.read_text()))
    return frozenset(header for header in found if header.exists())


def closure(path: Path) -> list[Path]:
    """A file and all project headers below it, in a fixed order."""
    seen: set[Path] = set()
    todo = [path]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo.extend(project_includes(current))
    return sorted(seen)


@functools.cache
def tool_digest() -> str:
    """The fingerprint of what every result depends on."""
    version = subprocess.run([TIDY, "--version"], check=True, capture_output=True, text=True).stdout
    return version + file_digest(ROOT / ".clang-tidy")


def fingerprint(unit: Unit) -> str:
    """Changes when the result of checking `unit` may change (system headers are taken as fixed)."""
    parts = [tool_digest(), " ".join(unit.arguments)]
    parts += [f"{path.relative_to(ROOT)} {file_digest(path)}" for path in closure(unit.file)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check(unit: Unit, database: str) -> str:
    """Runs clang-tidy on one unit of the database in a folder; empty output when it is clean."""
    done = subprocess.run(
        [TIDY, "--quiet", "-p", database, str(unit.file)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 0:
        (CLEAN / fingerprint(unit)).touch()
        return ""
    return done.stdout or done.stderr


def main() -> int:
    """Checks what changed; the exit status says whether anything was found."""
    parser = argparse.ArgumentParser(description="Run clang-tidy on what changed.")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cmake")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("parts", nargs="*")
    args = parser.parse_args()

    CLEAN.mkdir(parents=True, exist_ok=True)
    units = load_units(args.build)
    if not units:
        sys.exit(f"clang-tidy: {args.build} compiles nothing of src/")
    chosen = [u for u in units if not args.parts or any(p in str(u.file) for p in args.parts)]
    changed = [u for u in chosen if not (CLEAN / fingerprint(u)).exists()]
    found = 0
    # A folder of its own, so that two runs on two builds do not disturb each other.
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        entries = [
            {"file": str(u.file), "directory": u.directory, "arguments": u.arguments} for u in units
        ]
        (Path(folder) / "compile_commands.json").write_text(json.dumps(entries))
        for output in pool.map(lambda unit: check(unit, folder), changed):
            if output:
                found += 1
                sys.stdout.write(output)
                sys.stdout.flush()
    sys.stdout.write(
        f"clang-tidy: {len(chosen)} files, {len(changed)} checked now, {found} with findings\n"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
