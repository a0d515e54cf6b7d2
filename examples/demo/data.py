"""The demo's text: the source of the Python standard library found here, split by files.

Nothing is downloaded. A file belongs to the held-out part if the hash of its path inside the
library says so; two versions of one module (of two Pythons on the machine) are on the same side.
"""

import hashlib
import json
import sysconfig
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ENOUGH_BYTES = 10_000_000
HELD_OUT_ONE_IN = 12
VOCABULARY = 256

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Where the two parts lie, how many bytes they have, and what they were made from."""

    train_path: str
    held_out_path: str
    train_bytes: int
    held_out_bytes: int
    num_files: int
    roots: list[str]
    fingerprint: str

    def train(self) -> Bytes:
        """The training bytes, uint8 [train_bytes], memory-mapped."""
        return np.memmap(self.train_path, dtype=np.uint8, mode="r")

    def held_out(self) -> Bytes:
        """The held-out bytes, uint8 [held_out_bytes], memory-mapped."""
        return np.memmap(self.held_out_path, dtype=np.uint8, mode="r")


def library_roots() -> list[Path]:
    """The standard libraries on this machine: this Python's, then the distribution's."""
    roots = [Path(sysconfig.get_path("stdlib"))]
    roots += sorted(Path("/usr/lib").glob("python3.*"), reverse=True)
    unique: list[Path] = []
    for root in roots:
        if root.is_dir() and root.resolve() not in unique:
            unique.append(root.resolve())
    return unique


def source_files(root: Path) -> list[Path]:
    """The *.py files of one library in sorted order, without installed packages."""
    banned = {"site-packages", "dist-packages", "__pycache__"}
    found = (path for path in root.rglob("*.py") if path.is_file())
    return sorted(path for path in found if not banned.intersection(path.relative_to(root).parts))


def is_held_out(relative: str) -> bool:
    """Whether the file at this path inside the library is kept from training."""
    return zlib.crc32(relative.encode()) % HELD_OUT_ONE_IN == 0


def prepare(folder: Path) -> Corpus:
    """Makes (or finds again) the two parts in `folder`.

    Raises FileNotFoundError if no library on this machine comes as source.
    """
    files: dict[str, Path] = {}  # path inside the library -> file; the first root wins
    roots: list[str] = []
    total = 0
    for root in library_roots():
        if total >= ENOUGH_BYTES:
            break
        roots.append(str(root))
        for path in source_files(root):
            relative = path.relative_to(root).as_posix()
            if files.setdefault(relative, path) is path:
                total += path.stat().st_size
    if total < 100_000:
        raise FileNotFoundError(
            f"[demo] the standard library under {roots} has {total} bytes of source; "
            "at least 100000 are needed"
        )
    listing = "".join(f"{name} {path.stat().st_size}\n" for name, path in sorted(files.items()))
    fingerprint = hashlib.sha256(f"{HELD_OUT_ONE_IN}\n{listing}".encode()).hexdigest()
    record = folder / "corpus.json"
    if record.is_file():
        cached = Corpus(**json.loads(record.read_text()))
        if cached.fingerprint == fingerprint and Path(cached.train_path).is_file():
            return cached
    folder.mkdir(parents=True, exist_ok=True)
    corpus = _write(folder, files, roots, fingerprint)
    record.write_text(json.dumps(asdict(corpus), indent=1) + "\n")
    return corpus


def _write(folder: Path, files: dict[str, Path], roots: list[str], fingerprint: str) -> Corpus:
    sizes = {"train.bin": 0, "held_out.bin": 0}
    with (folder / "train.bin").open("wb") as train, (folder / "held_out.bin").open("wb") as held:
        for relative, path in sorted(files.items()):
            text = path.read_bytes() + b"\n\n"
            if is_held_out(relative):
                sizes["held_out.bin"] += held.write(text)
            else:
                sizes["train.bin"] += train.write(text)
    return Corpus(
        train_path=str(folder / "train.bin"),
        held_out_path=str(folder / "held_out.bin"),
        train_bytes=sizes["train.bin"],
        held_out_bytes=sizes["held_out.bin"],
        num_files=len(files),
        roots=roots,
        fingerprint=fingerprint,
    )


def evaluation_windows(held_out: Bytes, *, count: int, context: int) -> Bytes:
    """`count` evenly spaced windows of `context` + 1 held-out bytes, uint8 [count, context + 1].

    Raises ValueError if the held-out part is shorter than one window.
    """
    if held_out.size < context + 1:
        raise ValueError(
            f"[demo] held-out text has {held_out.size} bytes; a window needs {context + 1}"
        )
    starts = np.linspace(0, held_out.size - context - 1, count).astype(np.int64)
    return np.asarray(held_out[starts[:, None] + np.arange(context + 1)])


def bigram_bits_per_byte(train: Bytes, windows: Bytes) -> float:
    """Bits per byte of a bigram model (counts of `train`, add-one smoothed) on the windows.

    The first byte of each window is given, as it is to the GPT.
    """
    counts = np.bincount(
        train[:-1].astype(np.int64) * VOCABULARY + train[1:], minlength=VOCABULARY * VOCABULARY
    ).reshape(VOCABULARY, VOCABULARY)
    smoothed = counts + 1.0
    log2 = np.log2(smoothed / smoothed.sum(axis=1, keepdims=True))
    return float(-log2[windows[:, :-1], windows[:, 1:]].mean())
