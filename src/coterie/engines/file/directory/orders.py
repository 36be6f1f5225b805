"""Orders of operators to the programs of a directory: to end a hold.

An order is a file in the folder of boards; its number is written into the bell of the program for orders. A ring proves
nothing, since all users of the directory may ring. The file says by its owner, which no user can choose, who gives
the order. A program obeys its own user, who could end it, root, and the owner of the directory, who could
remove the locks of all. What the file says names one program and the tokens of holds, so the same order does no
further harm if another user puts it back into its place.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.file.directory.folder import READ

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Folder

MAGIC = "coterie order 1"
BYTES_MAX = 4096


class Order(NamedTuple):
    """An order to end a hold."""

    lock: str
    token: int  # a hold with a larger one has begun since the operator looked
    operator: str  # host:pid
    user: int  # who gives it


class RefusedOrder(NamedTuple):
    """An order of a user who has no right to it."""

    user: int


def write_order(boards: Folder, program: int, lock: str, token: int, operator: str) -> int:
    """Write an order for a program, and return its number; `remove_order` when it is obeyed."""
    number = int.from_bytes(os.urandom(8), "big")
    file = boards.create(order_name(program, number))
    try:
        text = f"{MAGIC}\n{program:016x}\n{token}\n{lock}\n{operator}\n"
        os.write(file, text.encode())
    finally:
        os.close(file)
    return number


def read_order(
    boards: Folder, program: int, number: int, owner: int
) -> Order | RefusedOrder | None:
    """Read an order for this program; None if there is none.

    Args:
        boards: The folder where it is.
        program: The number of this program.
        number: That of the order, as the bell has told it.
        owner: To whom the directory belongs.
    """
    try:
        file = os.open(order_name(program, number), READ, dir_fd=boards.descriptor)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        # One with a second name may be a file of that user elsewhere.
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size > BYTES_MAX:
            return None
        if found.st_uid not in (0, os.geteuid(), owner):
            return RefusedOrder(found.st_uid)
        text = os.read(file, BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
    lines = text.split("\n")
    if len(lines) != 6 or lines[:2] != [MAGIC, f"{program:016x}"] or not lines[2].isdecimal():
        return None
    return Order(lines[3], int(lines[2]), lines[4], found.st_uid)


def order_name(program: int, number: int) -> str:
    """Name the file of an order."""
    return f"{program:016x}-{number:016x}.order"
