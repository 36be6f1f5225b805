"""The command `coterie`, from the command line to its exit status."""

from __future__ import annotations

import gc
import sys


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    status = run(arguments)
    gc.freeze()  # all of it goes with the process; to look for cycles once more takes long
    sys.exit(status)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    from coterie.cli.root import run_command  # noqa: PLC0415 - `coterie lock` may do without Click

    return run_command(sys.argv[1:] if arguments is None else arguments)
