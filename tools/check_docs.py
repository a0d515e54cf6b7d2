"""Checks what the documentation claims about the tree.

    tools/check_docs.py [ROOT]

- every relative link and every heading that a link names exists;
- docs/envvars.md lists exactly the environment variables that the code reads, which native code
  does in src/shoal/base/env.cc only, and no code of the package writes one;
- every `[Note: Title]` that is cited in code is written down in exactly one place;
- every room of src/shoal has a README.md of 5 to 40 lines.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"(?<!!)\[[^\]^\n]+\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
ENV_ROW = re.compile(r"^\|\s*`([A-Z][A-Z0-9_]*)`", re.MULTILINE)
ENV_TABLE = re.compile(r'\{EnvVar::k\w+,\s*"([A-Z0-9_]+)"\}')
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
ENV_WRITE = re.compile(r"\b(setenv|unsetenv|putenv)\s*\(")
# A note is written down where its title opens a comment line; elsewhere in a line it is cited.
NOTE_HEAD = re.compile(r"^[\s/#*\"]*\[Note: ([^\]]+)\]", re.MULTILINE)
NOTE = re.compile(r"\[Note: ([^\]]+)\]")
# Pages of the site that tools/docs_hooks.py makes.
MADE = {"api/cpp.md", "architecture.md", "contributing.md", "changelog.md"}
SKIPPED = {".venv", ".venv-peers", "build", "site", "dist", "runs", ".git", "node_modules"}


def tracked(root: Path, *suffixes: str) -> Iterator[Path]:
    """The files of the checkout with one of the suffixes, built and installed ones left out."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(p in SKIPPED or p.startswith("build-") for p in parts):
            continue
        if path.suffix in suffixes and path.is_file():
            yield path


def anchors(text: str) -> set[str]:
    """The fragments that a page's headings make, as GitHub and MkDocs write them."""
    slugs = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"[`*_]|\[|\]\([^)]*\)", "", heading).lower()
        slugs.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain)))
    return slugs


def link_errors(root: Path) -> Iterator[str]:
    """Links to files or headings that do not exist."""
    for page in tracked(root, ".md"):
        text = page.read_text()
        for target in LINK.findall(FENCE.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, fragment = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if file.is_relative_to(root / "docs") and str(file.relative_to(root / "docs")) in MADE:
                continue
            if not file.exists():
                yield f"{page.relative_to(root)}: link to '{target}': no such file"
            elif fragment and file.suffix == ".md" and fragment not in anchors(file.read_text()):
                yield f"{page.relative_to(root)}: link to '{target}': no such heading"


def python_env(tree: ast.AST) -> Iterator[tuple[int, str | None, bool]]:
    """(line, name or None if computed, is it a write) for each use of os.environ and os.getenv."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=key, ctx=context):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr="environ"), attr=verb), args=[key, *_]
            ):
                context = ast.Load() if verb in {"get", "__getitem__"} else ast.Store()
            case ast.Call(func=ast.Attribute(attr="getenv"), args=[key, *_]):
                context = ast.Load()
            case ast.Compare(left=key, comparators=[ast.Attribute(attr="environ")]):
                context = ast.Load()
            case _:
                continue
        name = key.value if isinstance(key, ast.Constant) else None
        yield (
            node.lineno,
            name if isinstance(name, str) else None,
            not isinstance(context, ast.Load),
        )


def env_errors(root: Path) -> Iterator[str]:
    """Environment variables that are read in the wrong place, written, or not listed."""
    table = root / "src" / "shoal" / "base" / "env.cc"
    read = set(ENV_TABLE.findall(table.read_text()))
    for path in tracked(root / "src", ".cc", ".h"):
        if path.stem.endswith("_test"):
            continue
        name, text = path.relative_to(root), path.read_text()
        if path != table and GETENV.search(text):
            yield f"{name}: reads the environment: only src/shoal/base/env.cc does"
        if ENV_WRITE.search(text):
            yield f"{name}: writes the environment"
    for path in tracked(root / "python" / "shoal", ".py"):
        for line, variable, writes in python_env(ast.parse(path.read_text())):
            where = f"{path.relative_to(root)}:{line}"
            if writes:
                yield f"{where}: writes the environment"
            elif variable is None:
                yield f"{where}: reads an environment variable whose name is computed"
            else:
                read.add(variable)
    listed = set(ENV_ROW.findall((root / "docs" / "envvars.md").read_text()))
    for variable in sorted(read - listed):
        yield f"docs/envvars.md: {variable} is read and not listed"
    for variable in sorted(listed - read):
        yield f"docs/envvars.md: {variable} is listed and not read"


def note_errors(root: Path) -> Iterator[str]:
    """Cited notes that are not written down, and notes written down twice."""
    heads: Counter[str] = Counter()
    cited: dict[str, Path] = {}
    for folder in ("src", "python"):
        for path in tracked(root / folder, ".h", ".cc", ".py"):
            text = path.read_text()
            heads.update(NOTE_HEAD.findall(text))
            cited.update((title, path.relative_to(root)) for title in NOTE.findall(text))
    for title, path in sorted(cited.items()):
        if not heads[title]:
            yield f"{path}: cites [Note: {title}], which is nowhere"
    for title, count in sorted(heads.items()):
        if count > 1:
            yield f"[Note: {title}] is written {count} times"


def room_errors(root: Path) -> Iterator[str]:
    """Rooms without a README of a readable length."""
    for room in sorted(p for p in (root / "src" / "shoal").iterdir() if p.is_dir()):
        if not any(room.rglob("*.cc")):
            continue
        readme = room / "README.md"
        if not readme.exists():
            yield f"src/shoal/{room.name}: has no README.md"
        elif not 5 <= len(readme.read_text().splitlines()) <= 40:
            yield f"src/shoal/{room.name}/README.md: 5 to 40 lines, please"


def main() -> int:
    """Prints what is wrong; the exit status says whether anything is."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    errors = [*link_errors(root), *env_errors(root), *note_errors(root), *room_errors(root)]
    for error in errors:
        sys.stdout.write(error + "\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
