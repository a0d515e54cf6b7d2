"""Writes python/shoal/_core.pyi, the types of the compiled module, from the module itself.

    tools/make_stubs.py [--check]

With --check nothing is written; the exit status says whether the committed stub is fresh.
"""

import argparse
import difflib
import importlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "shoal" / "_core.pyi"
HEAD = "# Written by tools/make_stubs.py from shoal._core.\n"
# The exceptions say that they are `shoal.X`, so the generator would import them from there.
ALIAS = re.compile(r"^from shoal import (\([^)]*\)|.*)\n", re.MULTILINE)


def exceptions() -> str:
    """The definitions of the module's exceptions, bases first."""
    module = importlib.import_module("shoal._core")
    found = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Exception)]
    lines = []
    for cls in sorted(found, key=lambda cls: (len(cls.__mro__), cls.__name__)):
        bases = ", ".join(base.__name__ for base in cls.__bases__)
        lines += [f"class {cls.__name__}({bases}):", f'    """{cls.__doc__}"""', ""]
    return "\n".join(lines)


def generate() -> str:
    """The stub of the module as it is built now."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "_core.pyi"
        # torch first: the module needs its libraries.
        code = (
            "import sys, torch; from nanobind.stubgen import main;"
            f"main(['-q', '-m', 'shoal._core', '-o', {str(out)!r}])"
        )
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
        text = ALIAS.sub("", out.read_text())
        out.write_text(HEAD + text + "\n" + exceptions())
        ruff = [str(Path(sys.executable).parent / "ruff"), "--quiet"]
        config = ["--config", str(ROOT / "pyproject.toml")]
        fix = [ruff[0], "check", *ruff[1:], *config, "--select", "I,F401,UP", "--fix-only"]
        subprocess.run([*fix, str(out)], check=True)
        subprocess.run([ruff[0], "format", *ruff[1:], *config, str(out)], check=True)
        return out.read_text()


def main() -> int:
    """Writes the stub, or compares."""
    parser = argparse.ArgumentParser(description="Write python/shoal/_core.pyi.")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    fresh = generate()
    if not args.check:
        STUB.write_text(fresh)
        return 0
    committed = STUB.read_text() if STUB.exists() else ""
    if committed == fresh:
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(
            committed.splitlines(True), fresh.splitlines(True), "committed", "fresh"
        )
    )
    sys.stdout.write("python/shoal/_core.pyi is stale: run tools/make_stubs.py and commit it.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
