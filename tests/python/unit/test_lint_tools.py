"""Each lint check finds what it is for: a planted fault fails it, a tree without it passes."""

import subprocess
from pathlib import Path

import check_docs
import check_layers
import check_library
import check_public
import check_tree
import pytest


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class TestLayers:
    @pytest.mark.parametrize(
        ("file", "include", "says"),
        [
            ("src/shoal/base/a.cc", '"shoal/layout/mesh.h"', "base may not include room layout"),
            ("src/shoal/plan/a.h", '"shoal/config/config.h"', "plan may not include room config"),
            ("src/shoal/optim/a.cc", '"shoal/torch/engine/unit.h"', "may not include room torch"),
            ("src/shoal/optim/a.cc", "<ATen/core/Tensor.h>", "left of the torch line"),
            ("src/shoal/ckpt/a.cc", "<Python.h>", "left of the torch line"),
            ("src/shoal/torch/engine/a.cc", "<torch/extension.h>", "is banned"),
            ("src/shoal/torch/engine/a.cc", "<torch/all.h>", "is banned"),
            ("src/shoal/bindings/a.cc", "<ATen/ATen.h>", "is banned"),
            ("src/shoal/torch/engine/a.cc", "<fmt/format.h>", "torch ships another fmt"),
            ("src/shoal/base/a.h", "<fmt/format.h>", "private to .cc files"),
            ("src/shoal/torch/comm/a.cc", "<c10/cuda/CUDAStream.h>", "ties host code to CUDA"),
            ("src/shoal/base/a.cc", '"shoal/nowhere/a.h"', "names no room"),
        ],
    )
    def test_reports_a_planted_include(
        self, tmp_path: Path, file: str, include: str, says: str
    ) -> None:
        write(tmp_path, file, f"// a\n#include {include}\n")
        found = list(check_layers.native_violations(tmp_path))
        assert len(found) == 1
        assert found[0].startswith(f"{file}:2: ")
        assert says in found[0]

    @pytest.mark.parametrize(
        ("file", "include"),
        [
            ("src/shoal/plan/a.cc", '"shoal/base/status.h"'),
            ("src/shoal/ckpt/a.cc", '"shoal/layout/mesh.h"'),
            ("src/shoal/torch/engine/a.cc", '"shoal/optim/adam.h"'),
            ("src/shoal/torch/engine/a.cc", "<ATen/core/Tensor.h>"),
            ("src/shoal/bindings/a.cc", '"shoal/torch/engine/unit.h"'),
            ("src/shoal/base/a.cc", "<fmt/format.h>"),
        ],
    )
    def test_accepts_an_include_along_an_arrow(
        self, tmp_path: Path, file: str, include: str
    ) -> None:
        write(tmp_path, file, f"#include {include}\n")
        assert list(check_layers.native_violations(tmp_path)) == []

    @pytest.mark.parametrize(
        "code",
        ["import torch.cuda", "from torch import cuda", "import torch\nx = torch.cuda.Stream()"],
    )
    def test_torch_cuda_is_named_in_one_file_only(self, tmp_path: Path, code: str) -> None:
        write(tmp_path, "python/shoal/engine.py", code + "\n")
        write(tmp_path, check_layers.CUDA_FILE, code + "\n")
        found = list(check_layers.python_violations(tmp_path))
        assert len(found) == 1
        assert found[0].startswith("python/shoal/engine.py:")

    def test_a_string_that_says_cuda_is_no_reference(self, tmp_path: Path) -> None:
        write(tmp_path, "examples/a.py", 'import torch\ndevice = torch.device("cuda")\n')
        assert list(check_layers.python_violations(tmp_path)) == []


class TestLibrary:
    def build(self, folder: Path, source: str, *flags: str) -> str:
        write(folder, "a.cc", source)
        library = folder / "liba.so"
        subprocess.run(
            ["g++", "-shared", "-fPIC", "-o", library, folder / "a.cc", *flags], check=True
        )
        return str(library)

    def test_reports_a_library_right_of_the_torch_line(self, tmp_path: Path) -> None:
        write(tmp_path, "dep.cc", "int dep() { return 1; }\n")
        dep = tmp_path / "libtorch_fake.so"
        subprocess.run(["g++", "-shared", "-fPIC", "-o", dep, tmp_path / "dep.cc"], check=True)
        library = self.build(
            tmp_path,
            "int dep();\nnamespace shoal { int f() { return dep(); } }\n",
            f"-L{tmp_path}",
            "-ltorch_fake",
        )
        names = check_library.needed(library)
        assert any(check_library.FORBIDDEN.search(name) for name in names)

    def test_reports_a_foreign_export(self, tmp_path: Path) -> None:
        library = self.build(
            tmp_path, "namespace shoal { int f() { return 1; } }\nint foreign() { return 1; }\n"
        )
        assert [name.split("(")[0] for name in check_library.foreign_exports(library)] == [
            "foreign"
        ]


class TestDocs:
    def tree(self, root: Path) -> Path:
        write(root, "src/shoal/base/env.cc", '    {EnvVar::kRank, "RANK"},\nstd::getenv(x)\n')
        write(root, "src/shoal/base/README.md", "line\n" * 10)
        write(root, "docs/envvars.md", "# Variables\n\n| `RANK` | rank |\n")
        write(root, "README.md", "[v](docs/envvars.md#variables)\n")
        write(root, "python/shoal/a.py", "import os\n")
        return root

    def errors(self, root: Path) -> list[str]:
        return [
            *check_docs.link_errors(root),
            *check_docs.env_errors(root),
            *check_docs.note_errors(root),
            *check_docs.room_errors(root),
        ]

    def test_a_consistent_tree_passes(self, tmp_path: Path) -> None:
        assert self.errors(self.tree(tmp_path)) == []

    @pytest.mark.parametrize(
        ("file", "text", "says"),
        [
            ("README.md", "[x](docs/gone.md)\n", "no such file"),
            ("README.md", "[x](docs/envvars.md#gone)\n", "no such heading"),
            ("src/shoal/io/a.cc", "getenv(x)\n", "only src/shoal/base/env.cc"),
            ("src/shoal/base/a.cc", "setenv(x, y, 1)\n", "writes the environment"),
            ("python/shoal/b.py", "import os\nos.environ['A'] = 'b'\n", "writes the environment"),
            ("python/shoal/b.py", "import os\nx = os.environ.get('A')\n", "A is read and not"),
            ("python/shoal/b.py", "import os\nx = os.getenv('A')\n", "A is read and not"),
            ("python/shoal/b.py", "import os\nx = os.environ[y]\n", "name is computed"),
            ("docs/envvars.md", "| `RANK` | a |\n| `GONE` | b |\n", "GONE is listed and not read"),
            ("src/shoal/base/a.h", "// see [Note: gone]\n", "which is nowhere"),
            ("src/shoal/base/README.md", "short\n", "5 to 40 lines"),
        ],
    )
    def test_reports_a_planted_fault(self, tmp_path: Path, file: str, text: str, says: str) -> None:
        write(self.tree(tmp_path), file, text)
        found = self.errors(tmp_path)
        assert any(says in error for error in found), found

    def test_a_note_is_written_down_once(self, tmp_path: Path) -> None:
        root = self.tree(tmp_path)
        write(root, "src/shoal/base/a.h", "// [Note: one] Because.\n// see [Note: one]\n")
        assert self.errors(root) == []
        write(root, "src/shoal/base/b.h", "// [Note: one] Again.\n")
        assert any("written 2 times" in error for error in self.errors(root))


class TestTree:
    @pytest.mark.parametrize(
        ("name", "text", "says"),
        [
            ("a.cc", "// TO" + "DO: later\n", "finish it"),
            ("a.py", "x = '/ho" + "me/me/x'\n", "path of one machine"),
            ("a.py", "x = 1 \n", "trailing blanks"),
            ("a.h", "int a;\n" * 601, "601 lines"),
            ("a.h", "int a;", "newline"),
        ],
    )
    def test_reports_a_planted_fault(self, name: str, text: str, says: str) -> None:
        errors = list(check_tree.file_errors(name, text))
        assert len(errors) == 1
        assert says in errors[0]

    def test_accepts_an_ordinary_file(self) -> None:
        assert list(check_tree.file_errors("a.h", "int a;\n" * 600)) == []


class TestPublic:
    def test_lists_all_names_of_public_modules_only(self, tmp_path: Path) -> None:
        write(tmp_path, "shoal/__init__.py", '__all__ = ["A", "b"]\n')
        write(tmp_path, "shoal/nn.py", '__all__ = ["C"]\n')
        write(tmp_path, "shoal/_hidden.py", '__all__ = ["D"]\n')
        write(tmp_path, "shoal/_cli/x.py", '__all__ = ["E"]\n')
        assert list(check_public.python_surface(tmp_path / "shoal")) == [
            "python shoal.A",
            "python shoal.b",
            "python shoal.nn.C",
        ]
