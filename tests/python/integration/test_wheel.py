"""The wheel stands alone: it is installed into a clean environment and used from another folder."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# What a wheel may expect from the machine: the C and C++ run time.
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux)")

pytestmark = pytest.mark.timeout(900)  # without a compiler cache the wheel is a whole build


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = ["wheel", ".", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", out]
    done = run(sys.executable, "-m", "pip", *command, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("shoal-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, torch and what they need, without this checkout."""
    path = tmp_path_factory.mktemp("environment")
    assert run(sys.executable, "-m", "venv", "--without-pip", path, cwd=path).returncode == 0
    python = path / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    done = run(*pip, wheel, cwd=path)
    assert done.returncode == 0, done.stdout + done.stderr
    # Torch and the other dependencies are lent by the environment that runs the tests, as plain
    # paths: its own .pth files, which point to this checkout, do not count there.
    (site,) = path.glob("lib/python*/site-packages")
    lent = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    (site / "lent.pth").write_text("\n".join(lent) + "\n")
    return path


def test_it_is_imported_from_the_environment_in_another_folder(
    environment: Path, tmp_path: Path
) -> None:
    done = run(
        environment / "bin" / "python",
        "-c",
        "import shoal, shoal._core; print(shoal._core.__file__)",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(environment)


def test_the_command_prints_both_versions(environment: Path, tmp_path: Path) -> None:
    done = run(environment / "bin" / "shoal", "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    version = re.search(r"project\(shoal VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert version is not None
    assert done.stdout.startswith(f"shoal {version[1]} ")
    assert "torch" in done.stdout


def test_it_carries_every_library_that_a_bare_machine_lacks(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    carried = {p.name for p in (tmp_path / "shoal").glob("*.so*")}
    assert "libshoal_core.so" in carried
    for library in (tmp_path / "shoal").glob("*.so*"):
        dynamic = run("readelf", "-d", library, cwd=tmp_path).stdout
        needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", dynamic))
        paths = re.findall(r"\((?:RPATH|RUNPATH)\)\s+Library r\w+path: \[([^\]]+)\]", dynamic)
        lacking = {n for n in needed - carried if not SYSTEM.match(n)}
        if library.name.startswith("_core"):
            # Torch's own libraries are loaded by `import torch`, before this module.
            lacking = {n for n in lacking if not re.match(r"lib(torch|c10)", n)}
        assert not lacking, f"{library.name} needs {lacking}"
        if needed & carried:
            assert paths == ["$ORIGIN"], library.name


def test_no_file_of_the_build_or_the_tests_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [n for n in names if n.startswith("shoal/") and n.endswith((".cc", ".h", ".txt"))] == []
    assert {n.split("/")[0].split("-")[0] for n in names} == {"shoal"}
    assert "shoal/py.typed" in names


def test_another_torch_is_one_clear_error(environment: Path, tmp_path: Path) -> None:
    (info,) = environment.glob("lib/python*/site-packages/shoal/_build_info.py")
    real = info.read_text()
    info.write_text(re.sub(r'TORCH_VERSION = ".*"', 'TORCH_VERSION = "2.3.4"', real))
    try:
        done = run(environment / "bin" / "python", "-c", "import shoal", cwd=tmp_path)
    finally:
        info.write_text(real)
    assert done.returncode != 0
    assert done.stderr.count("Error: ") == 1, done.stderr
    built_with = re.search(r'TORCH_VERSION = "(.*)"', real)
    assert built_with is not None
    last = done.stderr.strip().splitlines()[-1]
    assert "2.3.4" in last
    assert built_with[1] in last
