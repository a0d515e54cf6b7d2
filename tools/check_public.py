"""Checks that the public surface is the one in tools/public_surface.txt.

    tools/check_public.py [--update] [--build BUILD_DIR]

The surface: the headers that `make install` installs (the build lists them in public_headers.txt)
and the names in `__all__` of every public Python module. A change that means to grow it runs
`--update` and commits the list, so that a reviewer sees the new name.
"""

import argparse
import ast
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "public_surface.txt"
PREFACE = (
    "# The public surface, written by tools/check_public.py --update: headers and Python names.\n"
)


def module_name(path: Path, package: Path) -> str:
    """The dotted name of a source file below the folder that holds `package`'s parent."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def exported(source: str) -> list[str]:
    """The names in a module's `__all__`, which must be a literal list or tuple."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def python_surface(package: Path) -> Iterator[str]:
    """`python module.name` for each public name of the package."""
    for path in sorted(package.rglob("*.py")):
        module = module_name(path, package)
        if not any(part.startswith("_") for part in module.split(".")):
            yield from (f"python {module}.{name}" for name in exported(path.read_text()))


def surface(build: Path) -> list[str]:
    """The whole surface in a fixed order."""
    headers = (build / "public_headers.txt").read_text().split()
    return sorted(
        [f"header {h}" for h in headers] + list(python_surface(ROOT / "python" / "shoal"))
    )


def main() -> int:
    """Compares, or with --update writes the list."""
    parser = argparse.ArgumentParser(
        description="Compare the public surface with the committed list."
    )
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cmake")
    args = parser.parse_args()

    now = PREFACE + "".join(line + "\n" for line in surface(args.build))
    if args.update:
        LIST.write_text(now)
        return 0
    listed = LIST.read_text()
    if now == listed:
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(
            listed.splitlines(True),
            now.splitlines(True),
            "tools/public_surface.txt",
            "this checkout",
        )
    )
    sys.stdout.write("If that is meant, run tools/check_public.py --update and commit the list.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
