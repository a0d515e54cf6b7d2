"""Runs the checks of `make lint`, all of them even when one fails, and says which failed.

    tools/lint.py [CHECK ...]

Each check is a command of its own that can be run alone; `make lint ARGS="ruff mypy"` runs those
two.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTHON = sys.executable


def cxx_sources() -> list[str]:
    """The C++ files that clang-format looks at: tracked and new ones, ignored ones not."""
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.h",
            "*.cc",
            "*.cu",
            "*.cuh",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return [name for name in listed if (ROOT / name).exists()]


def checks() -> dict[str, list[str]]:
    """The command of each check, the quick ones first."""
    return {
        "layers": [PYTHON, "tools/check_layers.py"],
        "tree": [PYTHON, "tools/check_tree.py"],
        "docs": [PYTHON, "tools/check_docs.py"],
        "public": [PYTHON, "tools/check_public.py"],
        "stubs": [PYTHON, "tools/make_stubs.py", "--check"],
        "library": [PYTHON, "tools/check_library.py", "python/shoal/libshoal_core.so"],
        "clang-format": [str(BIN / "clang-format"), "--dry-run", "--Werror", *cxx_sources()],
        "ruff-format": [str(BIN / "ruff"), "format", "--check", "--quiet"],
        "ruff": [str(BIN / "ruff"), "check", "--quiet"],
        "mypy": [str(BIN / "mypy"), "--no-error-summary"],
        "clang-tidy": [PYTHON, "tools/clang_tidy.py"],
    }


def main() -> int:
    """Runs the named checks, or all."""
    known = checks()
    chosen = sys.argv[1:] or list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        sys.exit(f"lint: no such check: {', '.join(unknown)} (there are: {', '.join(known)})")
    failed = []
    for name in chosen:
        start = time.monotonic()
        passed = subprocess.run(known[name], cwd=ROOT, check=False).returncode == 0
        if not passed:
            failed.append(name)
        verdict = "ok" if passed else "FAILED"
        sys.stdout.write(f"lint: {name:13} {verdict:7} {time.monotonic() - start:6.1f} s\n")
        sys.stdout.flush()
    sys.stdout.write(f"lint: {len(chosen) - len(failed)} passed, {len(failed)} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
