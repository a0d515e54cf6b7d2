"""find_package(shoal): the installed C++ package is enough to build and run a program."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("SHOAL_TEST_BUILD", ROOT / "build" / "cmake"))


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed into a folder of its own."""
    path = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--component", "cxx", "--prefix", path)
    return path


def test_a_program_builds_and_runs_against_the_installed_package(
    prefix: Path, tmp_path: Path
) -> None:
    source = ROOT / "tests" / "cpp_package"
    run("cmake", "-G", "Ninja", "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    compile_commands = run("ninja", "-C", tmp_path, "-t", "commands")
    assert str(ROOT / "src") not in compile_commands
    run("ninja", "-C", tmp_path)
    printed = run(tmp_path / "shoal_user").splitlines()
    assert printed[0] == "dp=(2,2)"
    assert "3" in printed[1]
    assert "4" in printed[1]


def test_another_minor_version_is_refused(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\n"
        "find_package(shoal 0.2 REQUIRED)\n"
    )
    done = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "considered but not accepted" in " ".join(done.stderr.split())


def test_every_public_header_is_installed_and_no_other(prefix: Path) -> None:
    listed = set((BUILD / "public_headers.txt").read_text().split())
    include = prefix / "include"
    assert {str(p.relative_to(include)) for p in include.rglob("*.h")} == listed
    assert not any(name.endswith(("_internal.h", "-inl.h")) for name in listed)
