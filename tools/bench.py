"""Runs every benchmark of bench/ (or those named) and keeps the JSON of each in build/bench/.

Usage: tools/bench.py [NAME ...]
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "bench"


def scripts(names: list[str]) -> list[Path]:
    """The benchmark scripts to run: files of bench/ with a command line of their own."""
    found = {p.stem: p for p in sorted((ROOT / "bench").glob("*.py")) if not p.name.startswith("_")}
    unknown = [name for name in names if name not in found]
    if unknown:
        sys.exit(f"bench: no such benchmark: {', '.join(unknown)} (there are: {', '.join(found)})")
    return [found[name] for name in names or found]


def run(script: Path) -> bool:
    """Runs one script, passes its table through, stores its last line; False when it failed."""
    sys.stdout.write(f"== {script.stem}\n")
    sys.stdout.flush()
    done = subprocess.run(
        [sys.executable, str(script), "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout)
    if done.returncode != 0:
        sys.stdout.write(f"bench: {script.stem} ended with {done.returncode}\n")
        return False
    result = json.loads(done.stdout.rstrip().splitlines()[-1])
    (OUT / f"{script.stem}.json").write_text(json.dumps(result, indent=2) + "\n")
    return True


def main() -> int:
    """Runs all, then fails if one did."""
    OUT.mkdir(parents=True, exist_ok=True)
    chosen = scripts(sys.argv[1:])
    if not chosen:
        sys.stdout.write("bench: bench/ holds no benchmark\n")
        return 0
    failed = [script.stem for script in chosen if not run(script)]
    sys.stdout.write(f"bench: {len(chosen)} ran, failed: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
