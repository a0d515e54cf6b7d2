"""Writes the tables of keys in docs/config.md from the schema that the native core holds.

    tools/config_docs.py [--check]

With --check nothing is written; the exit status says whether the page is fresh.
"""

import argparse
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "config.md"
BEGIN = "<!-- Written by tools/config_docs.py from the schema. -->"
END = "<!-- End of the generated tables. -->"
HEADINGS = {
    "read": "Keys with an effect",
    "hint": "Accepted without effect on results",
    "default only": "Only their default is supported",
    "ignored": "Belonging to something that is off: not looked at",
    "refused": "Refused",
}


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def tables() -> str:
    """The generated part of the page: one table for each thing that Shoal does with a key."""
    import torch  # noqa: F401, PLC0415  (the core needs its libraries)

    from shoal import _core  # noqa: PLC0415

    rows = _core.config_schema()
    parts = []
    for action, heading in HEADINGS.items():
        lines = [
            f"### {heading}",
            "",
            "| key | type | default (DeepSpeed) | default (Shoal) | what it does |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| `{row.path}` | {row.type} | {_code(row.default)} | {_code(row.shoal_default)} "
            f"| {row.note} |"
            for row in rows
            if row.action == action
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def fresh(page: str) -> str:
    """`page` with its generated part replaced.

    Raises:
        ValueError: `page` lacks one of the marks.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        msg = f"docs/config.md lacks the mark {END if begin else BEGIN}"
        raise ValueError(msg)
    return f"{head}{BEGIN}\n\n{tables()}\n\n{END}{tail}"


def main() -> int:
    """Writes the page, or compares."""
    parser = argparse.ArgumentParser(description="Write the tables of docs/config.md.")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    page = PAGE.read_text()
    wanted = fresh(page)
    if not args.check:
        PAGE.write_text(wanted)
        return 0
    if page == wanted:
        return 0
    sys.stdout.write("docs/config.md is stale: run tools/config_docs.py and commit it.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
