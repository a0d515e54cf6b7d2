"""Checks the tracked files for what the style forbids everywhere.

    tools/check_tree.py [ROOT]

No leftover markers of unfinished work, no absolute path of somebody's machine, no file over 600
lines, no trailing blanks, every file ends with a newline.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 600
# Spelt in two parts so that this file passes its own check.
LEFTOVER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
ABSOLUTE = re.compile(r"(?<![\w.$}])/(home|root|work|Users)/[\w.-]+")
CODE = {".h", ".cc", ".cuh", ".cu", ".py", ".sh", ".cmake", ".toml", ".yml", ".yaml", ".txt", ".md"}
# Texts that are not ours to edit.
FOREIGN = {"LICENSE"}


def line_errors(name: str, text: str) -> Iterator[str]:
    """What is wrong with single lines of one file."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := LEFTOVER.search(line):
            yield f"{name}:{number}: '{match[0]}': finish it or file an issue"
        if match := ABSOLUTE.search(line):
            yield f"{name}:{number}: '{match[0]}' is a path of one machine"
        if line != line.rstrip() and not name.endswith(".md"):
            yield f"{name}:{number}: trailing blanks"


def file_errors(name: str, text: str) -> Iterator[str]:
    """What is wrong with one file."""
    suffix = Path(name).suffix
    if suffix in {".h", ".cc", ".py"} and text.count("\n") > MAX_LINES:
        yield f"{name}: {text.count(chr(10))} lines; a file holds one idea in at most {MAX_LINES}"
    if text and not text.endswith("\n"):
        yield f"{name}: does not end with a newline"
    yield from line_errors(name, text)


def tree_errors(root: Path) -> Iterator[str]:
    """What is wrong in all tracked files of the checkout at `root`."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in names:
        path = root / name
        known = Path(name).suffix in CODE or Path(name).name in {"Makefile", "run"}
        if name and known and Path(name).name not in FOREIGN and path.is_file():
            yield from file_errors(name, path.read_text())


def main() -> int:
    """Prints what is wrong; the exit status says whether anything is."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    errors = list(tree_errors(root))
    for error in errors:
        sys.stdout.write(error + "\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
