"""Checks that libshoal_core.so stands without torch, CUDA and Python.

    tools/check_library.py LIBRARY

Reads its NEEDED entries and exported names with readelf and nm (binutils).
"""

import re
import subprocess
import sys

FORBIDDEN = re.compile(r"torch|c10|caffe|cuda|nvrtc|nccl|cublas|python", re.IGNORECASE)
NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]")


def needed(library: str) -> list[str]:
    """The libraries that the dynamic linker loads with `library`."""
    out = subprocess.run(
        ["readelf", "-d", library], check=True, capture_output=True, text=True
    ).stdout
    return NEEDED.findall(out)


def foreign_exports(library: str) -> list[str]:
    """Exported names that are not Shoal's: they could clash with another library's."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", "--demangle", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [line for line in out.splitlines() if line and "shoal" not in line]


def main() -> int:
    """Prints what is wrong; the exit status says whether anything is."""
    library = sys.argv[1]
    errors = [
        f"{library}: needs {name}, which is right of the torch line"
        for name in needed(library)
        if FORBIDDEN.search(name)
    ]
    errors += [f"{library}: exports a foreign name: {name}" for name in foreign_exports(library)]
    for error in errors:
        sys.stdout.write(error + "\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
