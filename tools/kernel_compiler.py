"""Device compilers behind one function: NVRTC (loaded through ctypes) or nvcc.

The compiler is chosen in this order: SHOAL_DEVICE_COMPILER=nvcc; SHOAL_NVRTC (a libnvrtc.so);
$CUDA_HOME's libnvrtc; the wheel nvidia-cuda-nvrtc-cu12, which is installed into a folder of the
build, never into torch's environment. No GPU and no toolkit is needed.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# The last compiler that knows sm_70; the wheel's exact version makes builds reproducible.
WHEEL = "nvidia-cuda-nvrtc-cu12==12.9.86"
INCLUDE = re.compile(r'^\s*#\s*include\s+"(shoal/kernels/[^"]+)"', re.MULTILINE)
FOREIGN_INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"(?!shoal/kernels/)[^"]+")', re.MULTILINE)


class CompilerError(RuntimeError):
    """A program that does not compile, or breaks a rule of the images."""


class NoCompilerError(CompilerError):
    """There is no device compiler here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One compiled kernel: its name expression, its symbol in the image, what it uses."""

    name: str
    symbol: str
    registers: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is compiled: a source and its headers by repository-relative name, and the kernels."""

    source: str
    files: Mapping[str, str]
    kernels: tuple[str, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A compiled program for one architecture."""

    code: bytes
    kernels: tuple[Kernel, ...]
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A chosen compiler: what index.json calls it, and where it is."""

    kind: str
    version: str
    path: str
    base_flags: tuple[str, ...] = field(default=("--std=c++20", "--ptxas-options=-v"))


def collect_files(root: Path, source: str) -> dict[str, str]:
    """A source and every header that it includes, directly or not, by name under `root`.

    Raises:
        CompilerError: for an include that is not a file of the kernels room.
    """
    files: dict[str, str] = {}
    todo = [source]
    while todo:
        name = todo.pop()
        if name in files:
            continue
        path = root / name
        if not path.is_file():
            raise CompilerError(f"{name} is included and does not exist")
        text = path.read_text()
        files[name] = text
        guarded = re.sub(r"#if !?defined\(__CUDACC_RTC__\).*?#endif", "", text, flags=re.DOTALL)
        if match := FOREIGN_INCLUDE.search(guarded):
            raise CompilerError(
                f'{name} includes {match[1]}; device code includes "shoal/kernels/..." only'
            )
        todo += INCLUDE.findall(text)
    return dict(sorted(files.items()))


class Nvrtc:
    """The functions of libnvrtc.so that compile one program."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> str:
        """`12.9`."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self.lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"

    def _check(self, code: int) -> None:
        if code:
            raise CompilerError(f"NVRTC: {self.lib.nvrtcGetErrorString(code).decode()}")

    def _bytes(self, size_of: Callable[..., int], get: Callable[..., int], prog: object) -> bytes:
        size = ctypes.c_size_t()
        self._check(size_of(prog, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(get(prog, buffer))
        return buffer.raw

    def compile(self, program: Program, target: str, options: Sequence[str]) -> Image:
        """Compiles for `sm_80` (cubin) or `compute_80` (PTX)."""
        headers = [name for name in program.files if name != program.source]
        count = len(headers)
        texts = (ctypes.c_char_p * count)(*[program.files[h].encode() for h in headers])
        names = (ctypes.c_char_p * count)(*[h.encode() for h in headers])
        prog = ctypes.c_void_p()
        source = program.files[program.source].encode()
        self._check(
            self.lib.nvrtcCreateProgram(
                ctypes.byref(prog), source, program.source.encode(), count, texts, names
            )
        )
        for name in program.kernels:
            self._check(self.lib.nvrtcAddNameExpression(prog, name.encode()))
        flags = [f"--gpu-architecture={target}", *options]
        argv = (ctypes.c_char_p * len(flags))(*[f.encode() for f in flags])
        code = self.lib.nvrtcCompileProgram(prog, len(flags), argv)
        raw_log = self._bytes(self.lib.nvrtcGetProgramLogSize, self.lib.nvrtcGetProgramLog, prog)
        log = raw_log.rstrip(b"\0").decode()
        if code:
            raise CompilerError(f"{program.source} for {target} does not compile:\n{log}")
        symbols = {}
        for name in program.kernels:
            lowered = ctypes.c_char_p()
            self._check(self.lib.nvrtcGetLoweredName(prog, name.encode(), ctypes.byref(lowered)))
            symbols[name] = (lowered.value or b"").decode()
        if target.startswith("compute_"):
            code_bytes = self._bytes(self.lib.nvrtcGetPTXSize, self.lib.nvrtcGetPTX, prog)
        else:
            code_bytes = self._bytes(self.lib.nvrtcGetCUBINSize, self.lib.nvrtcGetCUBIN, prog)
        self.lib.nvrtcDestroyProgram(ctypes.byref(prog))
        return Image(code=code_bytes, kernels=read_log(log, symbols), log=log)


FUNCTION = re.compile(r"(?:Compiling entry function|Function properties for) '?([\w$]+)'?")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def read_log(log: str, symbols: Mapping[str, str]) -> tuple[Kernel, ...]:
    """What the assembler says about each kernel (`--ptxas-options=-v`), in order of the names."""
    facts: dict[str, dict[str, int]] = {}
    current = ""
    for line in log.splitlines():
        if match := FUNCTION.search(line):
            current = match[1]
        entry = facts.setdefault(current, {})
        if match := STACK.search(line):
            entry["stack_bytes"] = int(match[1])
            entry["spill_store_bytes"] = int(match[2])
            entry["spill_load_bytes"] = int(match[3])
        if match := USED.search(line):
            entry["registers"] = int(match[1])
            smem = SHARED.search(line)
            entry["shared_bytes"] = int(smem[1]) if smem else 0
    return tuple(
        Kernel(name=name, symbol=symbol, **facts.get(symbol, {}))
        for name, symbol in symbols.items()
    )


def compile_with_nvcc(compiler: Compiler, program: Program, target: str) -> Image:
    """Compiles with `nvcc -cubin` or `-ptx` in a folder of its own.

    nvcc has no name expressions: the address of each kernel, taken in a device variable, makes the
    instance, and the variable's initialiser in the PTX tells its symbol.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in program.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        lines = [f'#include "{program.source}"']
        lines += [
            f'extern "C" __device__ void* shoal_kernel_{i} = (void*)&{name};'
            for i, name in enumerate(program.kernels)
        ]
        (root / "unit.cu").write_text("\n".join(lines) + "\n")
        arch = target.partition("_")[2]

        def nvcc(kind: str, code: str, out: str) -> str:
            command = [compiler.path, kind, f"-gencode=arch=compute_{arch},code={code}_{arch}"]
            command += ["-I.", *compiler.base_flags, *program.flags, "-o", out, "unit.cu"]
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompilerError(f"{program.source} for {target}: nvcc:\n{done.stderr}")
            return done.stderr

        nvcc("-ptx", "compute", "unit.ptx")
        ptx = (root / "unit.ptx").read_text()
        symbols = {}
        for i, name in enumerate(program.kernels):
            match = re.search(rf"shoal_kernel_{i}\b[^=;]*=\s*\{{?\s*([\w$]+)", ptx)
            if match is None:
                raise CompilerError(f"{program.source}: nvcc made no kernel '{name}'")
            symbols[name] = match[1]
        if target.startswith("compute_"):
            return Image(code=ptx.encode(), kernels=read_log("", symbols))
        log = nvcc("-cubin", "sm", "unit.cubin")
        code = (root / "unit.cubin").read_bytes()
        return Image(code=code, kernels=read_log(log, symbols), log=log)


def compile_program(
    compiler: Compiler, program: Program, target: str, *, allow_spills: bool = False
) -> Image:
    """Compiles one program for one target and holds it to the rules of the images.

    Raises:
        CompilerError: if it does not compile, spills registers or serialises wgmma (C7510).
    """
    if compiler.kind == "nvcc":
        image = compile_with_nvcc(compiler, program, target)
    else:
        options = [*compiler.base_flags, *program.flags]
        image = Nvrtc(compiler.path).compile(program, target, options)
    if "C7510" in image.log:
        raise CompilerError(f"{program.source} for {target}: wgmma is serialised:\n{image.log}")
    spilling = [k for k in image.kernels if k.spill_store_bytes or k.spill_load_bytes]
    if spilling and not allow_spills:
        names = ", ".join(f"{k.name} ({k.spill_store_bytes} bytes)" for k in spilling)
        raise CompilerError(f"{program.source} for {target}: registers spill in {names}")
    return image


def _library_in(folders: Sequence[Path]) -> str | None:
    for folder in folders:
        found = sorted(folder.glob("libnvrtc.so*")) if folder.is_dir() else []
        if found:
            return str(found[0])
    return None


def _from_wheel(folder: Path) -> str:
    """libnvrtc of the wheel, installed into `folder` by the first build."""
    place = folder / "nvidia" / "cuda_nvrtc" / "lib"
    found = _library_in([place])
    if found is None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "--no-deps", "--target", str(folder), WHEEL],
            capture_output=True,
            text=True,
            check=False,
        )
        found = _library_in([place])
        if done.returncode or found is None:
            lines = done.stderr.strip().splitlines()
            raise NoCompilerError(
                f"no device compiler: pip could not install {WHEEL} "
                f"({lines[-1] if lines else 'no message'}); set SHOAL_NVRTC=/path/libnvrtc.so, "
                "CUDA_HOME, or SHOAL_KERNELS_DIR to a folder of prebuilt images"
            )
    return found


def _nvcc(environment: Mapping[str, str]) -> Compiler:
    home = environment.get("CUDA_HOME", "")
    path = str(Path(home) / "bin" / "nvcc") if home else "nvcc"
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoCompilerError(f"SHOAL_DEVICE_COMPILER=nvcc: {error}") from error
    match = re.search(r"release [\d.]+, V([\d.]+)", done.stdout)
    if match is None:
        raise CompilerError(f"SHOAL_DEVICE_COMPILER=nvcc: '{path} --version' says no version")
    flags = ("-std=c++20", "-Xptxas=-v")
    return Compiler(kind="nvcc", version=match[1], path=path, base_flags=flags)


def find_compiler(wheel_folder: Path, environment: Mapping[str, str] = os.environ) -> Compiler:
    """The compiler by the order that the module's text states.

    Raises:
        CompilerError: if there is none, saying what to set.
    """
    kind = environment.get("SHOAL_DEVICE_COMPILER", "")
    if kind == "nvcc":
        return _nvcc(environment)
    if kind not in {"", "nvrtc"}:
        raise CompilerError(f"SHOAL_DEVICE_COMPILER={kind}: it is nvrtc (the default) or nvcc")
    path: str | None = environment.get("SHOAL_NVRTC", "") or None
    home = environment.get("CUDA_HOME", "")
    if path is None and home:
        path = _library_in([Path(home) / "lib64", Path(home) / "lib"])
    if path is None:
        path = _from_wheel(wheel_folder)
    try:
        version = Nvrtc(path).version()
    except OSError as error:
        raise CompilerError(f"libnvrtc '{path}' cannot be loaded: {error}") from error
    return Compiler(kind="nvrtc", version=version, path=path)
