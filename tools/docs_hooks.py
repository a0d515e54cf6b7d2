"""MkDocs hooks: the pages that are made from other files of the tree.

- api/cpp.md: every public header with its preface, from the list that the build writes;
- architecture.md, contributing.md, changelog.md: the files of the root, their links made to fit.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
FROM_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
CPP_PREFACE = """# C++ API

The torch-free rooms of Shoal are a C++20 library. Their headers are the manual: each begins with
its purpose, ownership, thread-safety and failure modes. A CMake project uses them like this (see
[Install](../install.md#as-a-c-package)):

```cmake
find_package(shoal 0.1 REQUIRED)
target_link_libraries(my_program PRIVATE shoal::core)
```
"""


def preface(header: str) -> str:
    """The comment that a header begins with, without its slashes."""
    lines = []
    for line in header.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    return "\n".join(lines).strip()


def cpp_page(headers: list[str]) -> str:
    """The page api/cpp.md for public headers, given as `shoal/room/file.h`."""
    parts, room = [CPP_PREFACE], ""
    for name in headers:
        text = (ROOT / "src" / name).read_text()
        if name.split("/")[1] != room:
            room = name.split("/")[1]
            parts.append(f"## {room}\n")
        body = "\n".join(f"    {line}" for line in text.rstrip().splitlines())
        parts.append(f"### {name}\n\n```text\n{preface(text)}\n```\n")
        parts.append(f'??? quote "{name}"\n\n    ```cpp\n{body}\n    ```\n')
    return "\n".join(parts)


def root_page(text: str) -> str:
    """A page of the root with links as seen from docs/; links out of the site become plain text."""

    def relink(match: re.Match[str]) -> str:
        label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        name, _, fragment = target.partition("#")
        anchor = f"#{fragment}" if fragment else ""
        if name.startswith("docs/"):
            return f"[{label}]({name.removeprefix('docs/')}{anchor})"
        if name in FROM_ROOT:
            return f"[{label}]({FROM_ROOT[name]}{anchor})"
        return label

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", relink, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the made pages to the site."""
    headers = (ROOT / "build" / "cmake" / "public_headers.txt").read_text().split()
    made = {"api/cpp.md": cpp_page(headers)}
    for source, page in FROM_ROOT.items():
        made[page] = root_page((ROOT / source).read_text())
    for page, content in made.items():
        files.append(File.generated(config, page, content=content))
    return files
