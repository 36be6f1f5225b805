"""The process that proves: it answers one text after another, and can be ended at any moment."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
from typing import TYPE_CHECKING

import msgspec

from coterie.errors import UsageError
from coterie.lab.play.proofs.answer import Missing, Refused
from coterie.lab.play.proofs.sheet import describe, make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from coterie.lab.play.proofs.answer import Line
    from coterie.lab.play.proofs.sheet import Made

INSTALL = "Proofs need z3, a solver, which is not installed: pip install 'coterie[prove]'"
END = b""  # of an answer; from the other side: leave the rest of it out


class ProofQuestion(msgspec.Struct, frozen=True):
    """What a reader makes of a page, and the files that may be imported."""

    text: str
    files: list[str]


def serve(connection: Connection) -> None:
    """Answer until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    prove = prover()
    with contextlib.suppress(EOFError, OSError):
        while True:
            asked = connection.recv_bytes()
            if asked == END:  # the answer had ended meanwhile
                continue
            for line in answer(msgspec.json.decode(asked, type=ProofQuestion), prove):
                connection.send_bytes(msgspec.json.encode(line))
                if connection.poll():
                    break
            connection.send_bytes(END)


def prover() -> Callable[[Made], Iterator[Line]]:
    """Return what proves; without a solver, what says how to get one."""
    if importlib.util.find_spec("z3") is None:
        return lambda _: iter([Missing(INSTALL)])
    from coterie.lab.play.proofs.prover import Prover  # noqa: PLC0415 - needs an extra

    return Prover().prove


def answer(question: ProofQuestion, prove: Callable[[Made], Iterator[Line]]) -> Iterator[Line]:
    """Describe the page as it is made, then prove it."""
    try:
        made = make(question.text, question.files)
        yield describe(made)
        yield from prove(made)
    except UsageError as error:
        yield Refused(str(error))
