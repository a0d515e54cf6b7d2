"""The demo, in small: its text, its comparison, and that a resumed run is the uninterrupted one."""

import json
from pathlib import Path
from typing import Any

import data
import numpy as np
import pytest
import report
import run
from plan import Plan

TINY = Plan(
    stage=3,
    world_size=2,
    steps=6,
    micro_batch=2,
    learning_rate=1e-3,
    warmup_steps=2,
    evaluation_windows=8,
    sample_bytes=20,
    context=32,
    width=32,
    heads=2,
    layers=2,
)


class TestText:
    def test_is_split_by_files_and_found_again(self, tmp_path: Path) -> None:
        corpus = data.prepare(tmp_path)
        assert corpus.train_bytes > 5 * corpus.held_out_bytes > 0
        assert corpus.train().size == corpus.train_bytes
        assert corpus.held_out().size == corpus.held_out_bytes
        written = (tmp_path / "train.bin").stat().st_mtime_ns
        assert data.prepare(tmp_path) == corpus
        assert (tmp_path / "train.bin").stat().st_mtime_ns == written

    def test_no_held_out_file_is_trained_on(self, tmp_path: Path) -> None:
        corpus = data.prepare(tmp_path)
        root = Path(corpus.roots[0])
        held_out = [
            path
            for path in data.source_files(root)
            if data.is_held_out(path.relative_to(root).as_posix()) and path.stat().st_size > 5000
        ]
        assert held_out
        train = corpus.train().tobytes()
        for path in held_out[:20]:
            text = path.read_bytes()
            assert text in corpus.held_out().tobytes()
            assert text not in train

    def test_bigram_of_known_sources(self) -> None:
        random = np.random.default_rng(0).integers(0, 256, 2_000_000).astype(np.uint8)
        windows = data.evaluation_windows(random, count=50, context=100)
        assert data.bigram_bits_per_byte(random, windows) == pytest.approx(8.0, abs=0.05)
        cycle = np.arange(2_000_000, dtype=np.int64).astype(np.uint8)
        windows = data.evaluation_windows(cycle, count=50, context=100)
        assert data.bigram_bits_per_byte(cycle, windows) < 0.1

    def test_too_short_text_is_refused(self) -> None:
        with pytest.raises(ValueError, match="10 bytes; a window needs 33"):
            data.evaluation_windows(np.zeros(10, np.uint8), count=2, context=32)


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.timeout(300)
def test_resumed_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    for name in ("whole", "halves"):
        run.clear(tmp_path / name)
        TINY.write(tmp_path / name / "plan.json")
    run.train_part(tmp_path / "whole", TINY, stop_at=None)
    run.train_part(tmp_path / "halves", TINY, stop_at=3)
    assert not (tmp_path / "halves" / "evaluation.json").exists()
    run.train_part(tmp_path / "halves", TINY, stop_at=None)
    whole, halves = metrics(tmp_path / "whole"), metrics(tmp_path / "halves")
    assert [record["step"] for record in halves] == [1, 2, 3, 4, 5, 6]
    for key in ("loss", "lr", "grad_norm"):
        assert [record[key] for record in halves] == [record[key] for record in whole]
    assert all(record["tokens_per_s"] > 0 and record["mem_bytes"] > 0 for record in halves)
    sample = (tmp_path / "halves" / "sample.txt").read_text()
    assert sample == (tmp_path / "whole" / "sample.txt").read_text()
    assert sample.startswith("def ")

    result = run.write_result(tmp_path / "halves", TINY, bigram=3.5)
    assert result == json.loads((tmp_path / "halves" / "result.json").read_text())
    assert result.keys() == {
        "bits_per_byte",
        "bigram_bits_per_byte",
        "tokens",
        "seconds",
        "stage",
        "world_size",
    }
    assert 0 < result["bits_per_byte"] < 9
    assert result["tokens"] == 6 * 2 * 2 * 2 * 32
    report.draw_losses(tmp_path / "halves" / "metrics.jsonl", tmp_path / "loss.png", bigram=3.5)
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
