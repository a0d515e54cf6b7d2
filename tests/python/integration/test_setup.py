"""The house: targets exist, set-up says what is missing and does nothing twice."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TARGETS = [
    "help",
    "setup",
    "build",
    "install",
    "test",
    "demo",
    "lint",
    "format",
    "bench",
    "peers",
    "test-peers",
    "test-model",
    "test-long",
    "test-gpu",
    "device-bundle",
    "asan",
    "tsan",
    "docs",
    "wheel",
    "clean",
]


@pytest.mark.parametrize("target", TARGETS)
def test_a_dry_run_of_the_target_expands(target: str) -> None:
    done = subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_help_names_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    named = set(re.findall(r"^([a-z-]+)\s", done.stdout, re.MULTILINE))
    assert set(TARGETS) <= named


@pytest.mark.parametrize("stage", ["0", "3"])
def test_the_demo_passes_its_arguments_on(stage: str) -> None:
    done = subprocess.run(
        ["make", "-n", "demo", f"STAGE={stage}", "SHORT=1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"examples/demo/run.py --stage {stage} --short" in done.stdout


class TestSetupScript:
    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        """A checkout with nothing but the set-up script and its lists."""
        (tmp_path / "tools").mkdir()
        for name in ("setup.sh", "apt-packages.txt", "requirements-torch.txt"):
            shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
        return tmp_path

    def run(
        self, checkout: Path, programs: dict[str, str], *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the script where `programs` (name: shell text) stand before the real ones."""
        folder = checkout / "fake-bin"
        folder.mkdir(exist_ok=True)
        for name, text in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
        return subprocess.run(
            [checkout / "tools" / "setup.sh", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_says_what_to_install_where_it_may_not(self, checkout: Path) -> None:
        done = self.run(checkout, {"dpkg-query": "exit 1", "id": "echo 1000", "sudo": "exit 1"})
        assert done.returncode == 1
        command = next(line for line in done.stderr.splitlines() if "apt-get install" in line)
        for package in ("libhwy-dev", "ninja-build", "libgtest-dev"):
            assert package in command
        assert not (checkout / ".venv").exists()

    def test_refuses_a_compiler_that_is_too_old(self, checkout: Path) -> None:
        done = self.run(checkout, {"dpkg-query": "echo installed", "g++": "echo 11.4.0"})
        assert done.returncode == 1
        assert "g++ 11.4.0 is too old" in done.stderr

    def test_refuses_a_python_that_is_too_old(self, checkout: Path) -> None:
        done = self.run(checkout, {"oldpython": "exit 1"}, "--python", "oldpython")
        assert done.returncode == 1
        assert "PYTHON=oldpython: Shoal needs Python 3.11" in done.stderr

    def test_refuses_a_python_that_does_not_exist(self, checkout: Path) -> None:
        done = self.run(checkout, {}, "--python", "/nowhere/python")
        assert done.returncode == 1
        assert "PYTHON=/nowhere/python: no such program" in done.stderr


def test_setup_does_nothing_twice() -> None:
    if not (ROOT / ".venv" / ".shoal-setup").exists():
        pytest.skip("this checkout was not set up with make")
    command = [ROOT / "tools" / "setup.sh"]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    start = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert time.monotonic() - start < 5  # 0.1 s on an idle machine
