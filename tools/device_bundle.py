"""Makes a folder with which a GPU host without network builds Shoal against its own torch.

    tools/device_bundle.py FOLDER [--build BUILD_DIR]

The folder is a small checkout: the torch-free rooms as libshoal_core.so with the third-party
libraries that it needs beside it, all headers, the sources of torch/ and bindings/, the Python
package, the tests, and what the host's Python may lack. `make test-gpu BUNDLE=FOLDER` (or
FOLDER/tools/test_gpu.sh FOLDER, without this checkout) uses it there. The host brings Python,
torch, CMake, Ninja and g++. Fails when the folder would exceed 50 MiB.
"""

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_BYTES = 50 * 2**20
# Whole folders and single files that are taken as they are.
TREES = ["cmake", "src/shoal/torch", "src/shoal/bindings", "tests/python", "bench", "examples"]
FILES = ["CMakeLists.txt", "pyproject.toml", "tools/test_gpu.sh"]
# Packages of .venv without compiled parts that the host's Python may lack.
PACKAGES = ["nanobind", "rich", "pytest_forked", "pytest_timeout"]
IGNORED = shutil.ignore_patterns("__pycache__", ".mypy_cache", "*.pyc", "*.so", "_build_info.py")


def copy_sources(out: Path) -> None:
    """The checkout's part: sources, headers, tests."""
    for tree in TREES:
        if (ROOT / tree).exists():
            shutil.copytree(ROOT / tree, out / tree, ignore=IGNORED)
    shutil.copytree(ROOT / "python" / "shoal", out / "python" / "shoal", ignore=IGNORED)
    headers = [p.relative_to(ROOT) for p in (ROOT / "src").rglob("*.h")]
    for name in [*map(Path, FILES), *headers]:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, out / name)


def copy_core(build: Path, out: Path) -> None:
    """libshoal_core.so and the libraries that it needs, installed as into a wheel."""
    staged = build / "device-stage"
    shutil.rmtree(staged, ignore_errors=True)
    install = ["cmake", "--install", str(build), "--component", "python", "--strip"]
    subprocess.run([*install, "--prefix", str(staged)], check=True, stdout=subprocess.DEVNULL)
    for library in (staged / "shoal").glob("lib*.so*"):
        shutil.copy2(library, out / "python" / "shoal" / library.name)
    shutil.rmtree(staged)


def copy_test_programs(build: Path, out: Path) -> None:
    """The C++ tests of the torch-free rooms, without symbols."""
    folder = out / "bin"
    folder.mkdir()
    for program in sorted(build.rglob("*_test")):
        if program.is_file():
            subprocess.run(["strip", "-o", str(folder / program.name), str(program)], check=True)


def copy_packages(out: Path) -> None:
    """Python packages that the host may lack."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            sys.exit(f"device-bundle: package '{name}' is missing in {sys.prefix}: run make setup")
        target = out / "third_party" / name
        if spec.submodule_search_locations:
            shutil.copytree(spec.submodule_search_locations[0], target, ignore=IGNORED)
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(spec.origin, target.with_suffix(".py"))


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def main() -> int:
    """Makes the folder anew."""
    parser = argparse.ArgumentParser(description="Make a device bundle.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cmake")
    args = parser.parse_args()
    out = args.folder.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    copy_sources(out)
    copy_core(args.build, out)
    copy_test_programs(args.build, out)
    copy_packages(out)
    size = size_of(out)
    sys.stdout.write(f"device-bundle: {args.folder}: {size / 2**20:.1f} MiB of at most 50\n")
    return 1 if size > MAX_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
