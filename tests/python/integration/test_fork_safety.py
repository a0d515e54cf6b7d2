"""Importing shoal, and building a configuration and a mesh, leaves the process as it was.

The driver is watched from outside: a stub libcuda.so.1, preloaded, counts every call into a file.
That a forked child can use a real GPU is tested where there is one (`make test-gpu`).
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import rank_environment

import shoal

FUNCTIONS = (
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxCreate_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxGetDevice",
    "cuCtxSynchronize",
    "cuModuleLoadData",
    "cuLibraryLoadData",
    "cuMemAlloc_v2",
    "cuStreamCreate",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
)

STUB = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int note(const char* name) {
  int file = open(getenv("STUB_CALLS"), O_WRONLY | O_APPEND | O_CREAT, 0644);
  if (file >= 0) {
    if (write(file, name, strlen(name)) < 0 || write(file, "\\n", 1) < 0) abort();
    close(file);
  }
  return 100; /* CUDA_ERROR_NO_DEVICE */
}
"""

CHILD = """
    pid = os.fork()
    if pid == 0:
        x = torch.randn(64, 64, requires_grad=True)
        (x @ x).sum().backward()
        good = bool(x.grad.isfinite().all()) and shoal.Mesh(dp=2).size == 2
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed"
"""

WATCH = """
import os, sys, torch

def state():
    links = sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                   if os.path.islink(f"/proc/self/fd/{fd}"))
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "environment": dict(os.environ),
        "sockets": [link for link in links if link.startswith("socket:")],
        "signals": [line for line in open("/proc/self/status") if line.startswith("SigCgt")],
    }

def native_environment():
    import ctypes
    libc = ctypes.CDLL(None)
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
    values, i = [], 0
    while environ[i]:
        values.append(environ[i])
        i += 1
    return sorted(values)

"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 that counts."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None, "the project needs a C++ compiler, so there is a C compiler"
    folder = tmp_path_factory.mktemp("stub")
    source = folder / "stub.c"
    bodies = "".join(f'int {name}(void) {{ return note("{name}"); }}\n' for name in FUNCTIONS)
    source.write_text(STUB + bodies)
    library = folder / "libcuda.so.1"
    subprocess.run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-O1",
            "-Wl,-soname,libcuda.so.1",
            "-o",
            str(library),
            str(source),
        ],
        check=True,
    )
    return folder


def run_watched(stub: Path, code: str) -> str:
    """Runs Python code with the stub preloaded; gives the names of the calls that it counted."""
    calls = stub / "calls.txt"
    calls.unlink(missing_ok=True)
    env = rank_environment() | {
        "LD_PRELOAD": str(stub / "libcuda.so.1"),
        "LD_LIBRARY_PATH": str(stub),
        "STUB_CALLS": str(calls),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return calls.read_text() if calls.exists() else ""


def test_stub_counts(stub: Path) -> None:
    code = "import ctypes; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 100"
    assert run_watched(stub, code) == "cuInit\n"


@pytest.mark.parametrize(
    "use",
    [
        "import shoal",
        "import shoal; shoal.Mesh(dp=2); shoal.Config.from_dict({'shoal': {}, 'optimizer': "
        "{'type': 'AdamW', 'params': {'lr': 1e-3}}, 'train_micro_batch_size_per_gpu': 1})",
    ],
    ids=["import", "config_and_mesh"],
)
def test_process_is_as_before_and_its_fork_computes(stub: Path, use: str) -> None:
    code = (
        WATCH
        + "before, native = state(), native_environment()\n"
        + use
        + "\nafter = state()\n"
        + "assert before == after, (before, after)\n"
        + "assert native == native_environment()\n"
        + "if True:"
        + CHILD
    )
    assert run_watched(stub, code) == ""


def test_no_native_library_needs_cuda() -> None:
    """Found by the loader's own tool, not by what happens to be loaded here."""
    folder = Path(shoal.__file__).parent
    libraries = sorted(folder.glob("*.so"))
    assert libraries
    for library in libraries:
        text = subprocess.run(
            ["readelf", "-d", str(library)], capture_output=True, text=True, check=True
        ).stdout
        needed = re.findall(r"NEEDED.*\[(.*)\]", text)
        assert not [name for name in needed if "cuda" in name], (library.name, needed)
        if "core" in library.name and library.name.startswith("libshoal_core"):
            assert not [name for name in needed if re.match(r"lib(torch|c10|python)", name)]


def test_a_forked_child_may_use_an_executor_of_its_own() -> None:
    """The parent has trained (its threads are gone in the child); a new engine works there."""
    code = """
import os, torch, shoal
def train():
    model = torch.nn.Linear(64, 64)
    config = {"shoal": {"compute_dtype": "float32"}, "train_micro_batch_size_per_gpu": 1,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
    with shoal.Engine(model, config=config, mesh=shoal.Mesh(dp=1)) as engine:
        engine.backward(engine(torch.randn(4, 64)).square().mean())
        assert engine.step()
torch.set_num_threads(1)
train()
pid = os.fork()
if pid == 0:
    try:
        train()
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed"
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=rank_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_forked_child_computes_on_the_gpu() -> None:
    """Fails if anything in the parent opened the driver: then a child cannot use it."""
    code = """
import os, torch, shoal
shoal.Mesh(dp=2)
shoal.Config.from_dict({"shoal": {}, "train_micro_batch_size_per_gpu": 1})
pid = os.fork()
if pid == 0:
    device = torch.accelerator.current_accelerator()
    x = torch.ones(256, 256, device=device)
    os._exit(0 if (x @ x).sum().item() == 256.0**3 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed"
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=rank_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_environment_of_this_test_is_clean() -> None:
    """The watched processes inherit it: a preloaded driver would hide what they do."""
    assert "LD_PRELOAD" not in os.environ
