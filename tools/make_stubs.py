"""Writes python/shoal/_core.pyi, the types of the compiled module, from the module itself.

    tools/make_stubs.py [--check]

With --check nothing is written; the exit status says whether the committed stub is fresh.
"""

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "shoal" / "_core.pyi"
HEAD = "# Written by tools/make_stubs.py from shoal._core.\n"


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
        out.write_text(HEAD + out.read_text())
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
