"""The programs in the documentation run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(300)
def test_the_quick_start_trains_and_leaves_a_checkpoint(tmp_path: Path) -> None:
    (program,) = BLOCK.findall((ROOT / "docs" / "quickstart.md").read_text())
    assert "range(100)" in program
    (tmp_path / "train.py").write_text(program.replace("range(100)", "range(4)"))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = subprocess.run(
        [sys.executable, *launch],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    latest = (tmp_path / "checkpoints" / "latest").read_text().strip()
    assert latest == "step-00000002"  # four micro-batches, two of them to a step
    assert (tmp_path / "checkpoints" / latest / "index.json").exists()


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_code_of_a_page_parses(page: str) -> None:
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    for block in blocks:
        compile(block, page, "exec")
