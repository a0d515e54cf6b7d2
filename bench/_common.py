"""What the benchmarks share: statistics, the table, the JSON line, and finding the peers.

Conventions (docs/performance.md): `ratio_*` is peer time / Shoal time, above 1 means that Shoal is
faster; an absent peer is null in the JSON and "absent" in the table.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Median and spread (interquartile range) of repeated measurements, in the caller's unit."""

    median: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Sample":
        """The sample of at least two values."""
        low, _, high = statistics.quantiles(values, n=4)
        return cls(median=statistics.median(values), spread=high - low)


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the flags that every benchmark has."""
    result = argparse.ArgumentParser(description=description.splitlines()[0])
    result.add_argument("--json", action="store_true", help="one JSON object on the last line")
    result.add_argument("--rounds", type=int, default=10, help="interleaved rounds")
    return result


def say(text: str) -> None:
    """A line of the table."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Writes rows in columns, first column left, the others right."""
    widths = [max(len(str(row[i])) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        say("  ".join(cells))


def ratio(peer: float | None, own: float) -> float | None:
    """Peer time / Shoal time, to three digits; None for an absent peer."""
    return None if peer is None else round(peer / own, 3)


def paired_ratio(peer: Sequence[float] | None, own: Sequence[float]) -> float | None:
    """The median over interleaved rounds of peer time / Shoal time; None for an absent peer.

    Whatever else loads the machine slows both sides of a round alike, so this moves less than the
    ratio of two medians.
    """
    if peer is None:
        return None
    return round(statistics.median(p / o for p, o in zip(peer, own, strict=True)), 3)


def shown(value: float | None, digits: int = 1) -> str:
    """A number for the table, or "absent"."""
    return "absent" if value is None else f"{value:,.{digits}f}"


def finish(result: dict[str, Any], *, as_json: bool) -> None:
    """Ends the output: with one JSON object if asked to."""
    if as_json:
        say(json.dumps(result))


def environment(threads: int = 1) -> dict[str, str]:
    """The environment of a measured process: the package's path and a fixed number of threads."""
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ) | {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "DS_ACCELERATOR": "cpu",
    }


def measured_by_peer(script: str, *arguments: str, threads: int = 1) -> dict[str, Any] | None:
    """Runs a benchmark script in the peers' environment and reads its last line.

    None if there is no such environment (`make peers` makes it) or DeepSpeed is not in it; a peer
    that is there and fails is an error, not an absence.
    """
    if not PEERS_PYTHON.exists():
        return None
    probe = [str(PEERS_PYTHON), "-c", "import importlib.util as u; print(u.find_spec('deepspeed'))"]
    found = subprocess.run(probe, capture_output=True, text=True, check=True)
    if found.stdout.strip() == "None":
        return None
    done = subprocess.run(
        [str(PEERS_PYTHON), script, *arguments],
        env=environment(threads),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{script} {' '.join(arguments)} failed:\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.rstrip().splitlines()[-1])
    return answer
