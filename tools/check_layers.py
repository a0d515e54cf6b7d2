"""Checks that no arrow between rooms is reversed (ARCHITECTURE.md, "Rooms").

Reads every `#include` under src/shoal and every reference to `torch.cuda` in Python. Run by `make
lint`:

    tools/check_layers.py [ROOT]

Exit status 1 and one line `file:line: what is wrong` per violation.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# What each room may include besides itself: the closure of the arrows of ARCHITECTURE.md.
ROOMS: dict[str, frozenset[str]] = {
    "base": frozenset(),
    "layout": frozenset({"base"}),
    "plan": frozenset({"base", "layout"}),
    "config": frozenset({"base"}),
    "io": frozenset({"base"}),
    "ckpt": frozenset({"base", "layout", "plan", "io"}),
    "optim": frozenset({"base"}),
    "device": frozenset({"base"}),
    "kernels": frozenset(),
}
ROOMS["torch"] = frozenset(ROOMS) - {"kernels"}
ROOMS["bindings"] = frozenset(ROOMS) - {"kernels"}

# The rooms right of the torch line; everything else builds without torch, Python and a GPU.
TORCH_ROOMS = frozenset({"torch", "bindings"})

# Headers that pull in all of torch: 20 s and 1.6 GB of compiler memory per file.
BANNED_HEADERS = frozenset({"torch/extension.h", "torch/all.h", "torch/torch.h", "ATen/ATen.h"})

TORCH_LINE = re.compile(r"^(torch|ATen|c10|caffe2|nanobind|pybind11)/|^Python\.h$")
CUDA_HOST = re.compile(r"^(c10/cuda|ATen/cuda)/|^cuda(_runtime|_runtime_api)?\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')

# The one Python file that may name torch.cuda; everything else is generic over devices.
CUDA_FILE = "python/shoal/_device.py"


def include_errors(room: str, file: str, include: str) -> Iterator[str]:
    """What is wrong with a file of `room` including `include` (as written between the brackets)."""
    if include.startswith("shoal/"):
        other = include.split("/")[1]
        if other not in ROOMS:
            yield f"'{include}' names no room"
        elif other != room and other not in ROOMS[room]:
            yield f"room {room} may not include room {other} ('{include}')"
        return
    if include in BANNED_HEADERS:
        yield f"'{include}' is banned: it pulls in all of torch"
    if room not in TORCH_ROOMS and TORCH_LINE.match(include):
        yield f"room {room} is left of the torch line and may not include '{include}'"
    if CUDA_HOST.match(include) and room != "kernels":
        yield f"'{include}' ties host code to CUDA: use device-generic interfaces"
    if include.startswith("fmt/"):
        if room in TORCH_ROOMS:
            yield f"'{include}': torch ships another fmt, so room {room} uses none"
        elif file.endswith(".h"):
            yield f"'{include}': fmt is private to .cc files"


def native_violations(root: Path) -> Iterator[str]:
    """Every violation in src/shoal of the checkout at `root`."""
    source = root / "src" / "shoal"
    for path in sorted(source.rglob("*")):
        if path.suffix not in {".h", ".cc", ".cu", ".cuh"} or path.parent == source:
            continue
        room = path.relative_to(source).parts[0]
        name = str(path.relative_to(root))
        if room not in ROOMS:
            yield f"{name}:1: '{room}' is no room of ARCHITECTURE.md"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := INCLUDE.match(line):
                for error in include_errors(room, path.name, match[1]):
                    yield f"{name}:{number}: {error}"


def cuda_references(tree: ast.AST) -> Iterator[int]:
    """Lines that name the module torch.cuda."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="torch"), attr="cuda"):
                yield node.lineno
            case ast.Import() if any(a.name.startswith("torch.cuda") for a in node.names):
                yield node.lineno
            case ast.ImportFrom(module=str(module)) if module.startswith("torch.cuda") or (
                module == "torch" and any(a.name == "cuda" for a in node.names)
            ):
                yield node.lineno


def python_violations(root: Path) -> Iterator[str]:
    """Every reference to torch.cuda in the package and the examples outside the one device file."""
    for folder in ("python", "examples"):
        for path in sorted((root / folder).rglob("*.py")):
            name = str(path.relative_to(root))
            if name == CUDA_FILE:
                continue
            for line in cuda_references(ast.parse(path.read_text(), filename=name)):
                yield f"{name}:{line}: torch.cuda may be named in {CUDA_FILE} only"


def main() -> int:
    """Prints the violations of a checkout; the exit status says whether there are any."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    found = [*native_violations(root), *python_violations(root)]
    for violation in found:
        sys.stdout.write(violation + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
