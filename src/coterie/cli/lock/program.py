"""The program that runs while a lock is held: how it is named, what it finds, how its end is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_FOUND = 127
NOT_EXECUTABLE = 126
OURS = (
    "COTERIE_SECRET",
    "COTERIE_OPERATOR_SECRET",
    "COTERIE_PASSWORD",
    "COTERIE_SENTINEL_PASSWORD",
)  # and not for the program


class Job(NamedTuple):
    """The command to run while holding, and what to do with it when the lock is lost."""

    program: tuple[str, ...]  # empty: hold until a signal or the end of input
    on_lost: str
    kill_after: float


def read_program(program: tuple[str, ...], shell: str | None) -> tuple[str, ...]:
    """Return what to run: the arguments after the name, or `sh -c` with the text after `-c`."""
    if program and program[0] == "-c" and shell is None:
        if len(program) != 2:
            raise UsageError("-c takes one argument, the text for the shell; quote it")
        return ("sh", *program)
    if program and program[0] == "--":
        program = program[1:]
    elif program and program[0].startswith("-"):
        raise UsageError(f"put options such as {program[0]} before the name of the lock")
    if shell is None:
        return program
    if program:
        raise UsageError("use a command or -c, not both")
    return ("sh", "-c", shell)


def environment(tokens: Mapping[str, int], waited: float) -> dict[str, str]:
    """Return the environment of the program: ours, the tokens of the locks and the time waited.

    Secrets stay here: what the program starts, logs or dumps is not meant to take part in the cluster.
    Variables that name files stay, so that a `coterie lock` within the program finds them.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    return inherited | {
        "COTERIE_LOCK": ",".join(tokens),
        "COTERIE_TOKEN": ",".join(str(token) for token in tokens.values()),
        "COTERIE_WAITED": f"{waited:.3f}",
    }


def failure(error: OSError) -> int:
    """Return the exit status by which shells report that a program could not be started."""
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
