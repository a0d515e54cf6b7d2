"""The command `shoal`: `main` is the entry point that the package installs.

Each subcommand is a module of this package with one function `add_parser(subparsers)` that declares
its arguments and sets `run`, a function from the parsed arguments to the exit status.
"""

import argparse
import sys
from collections.abc import Sequence

__all__ = ["main"]


def version_text() -> str:
    """One line: Shoal's version and the torch it was built for and runs with."""
    import torch  # noqa: PLC0415  (costs a second: only where it is asked for)

    from shoal._build_info import TORCH_VERSION, VERSION  # noqa: PLC0415

    return f"shoal {VERSION} (built for torch {TORCH_VERSION}, running {torch.__version__})"


class _VersionAction(argparse.Action):
    """Prints the version when asked; argparse's own action would compute it for every command."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        sys.stdout.write(version_text() + "\n")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: the process's) and returns the exit status.

    0: done; 1: the command found what it asks about to be wrong; 2: the command line is wrong
    (argparse's own).
    """
    parser = argparse.ArgumentParser(
        prog="shoal", description="Sharded training of PyTorch models."
    )
    parser.add_argument(
        "--version", action=_VersionAction, nargs=0, help="print the version and exit"
    )
    parser.parse_args(argv)
    parser.print_help()
    return 0
