"""The other end of the process that proves, for the laboratory: it waits for no solver that is not wanted."""

from __future__ import annotations

import multiprocessing
import threading
from typing import TYPE_CHECKING

import msgspec

from coterie.catalogue import every_algorithm, is_reference
from coterie.errors import UsageError
from coterie.lab.play.proofs.answer import Line, Missing, Proof, Refused
from coterie.lab.play.proofs.sheet import read_head
from coterie.lab.play.proofs.worker import END, ProofQuestion, serve
from coterie.lab.play.recent import Recent
from coterie.lab.play.runs.refusal import Refusal, Superseded
from coterie.lab.prove import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

TICK_SECONDS = 0.05  # between two looks at whether the answer is still wanted
GRACE_SECONDS = 0.3  # to come to the end of a line; a solver that takes longer is ended
VERDICTS_MAX = 64  # that are remembered
DECODER = msgspec.json.Decoder(Line)


class SolverProcess:
    """Starts a process for the first question about a page, and ends it with the last answer that is wanted.

    A page has a process of its own: how long z3 takes varies with what else it was asked before.
    """

    def __init__(self) -> None:
        """Begin without a process."""
        self._named: list[str] = []  # files with a page and no algorithm
        self._turn = threading.Lock()  # one question at a time
        self._verdicts: Recent[Proof] = Recent(VERDICTS_MAX)
        self._page = ""
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None

    def name_file(self, name: str) -> None:
        """Allow a file to be imported: the user has named it."""
        self._named.append(name)

    def files(self) -> list[str]:
        """Name the files that the user has named, those of algorithms among them."""
        references = (
            name.partition(":")[0] for name in every_algorithm(loaded=True) if is_reference(name)
        )
        found = dict.fromkeys([*self._named, *references])
        return [name for name in found if name.endswith(".py")]

    def pages(self) -> list[str]:
        """Name what can be proved."""
        return [*self.files(), *library.names()]

    def lines(self, text: str, cancelled: Callable[[], bool]) -> Iterator[Line]:
        """Yield the lines of the answer; raise `Superseded` as soon as it is cancelled."""
        name = read_head(text).name
        if name not in self.pages():
            raise UsageError(
                f"there is no page for {name[:40]!r}: name a file at the start of the lab"
            )
        with self._turn:
            connection = self._ready(name)
            question = ProofQuestion(text, self.files())
            connection.send_bytes(msgspec.json.encode(question))
            ended = False
            try:
                while True:
                    line = self._receive(connection, cancelled)
                    if line == END:
                        ended = True
                        return
                    yield self._noted(text, DECODER.decode(line))
            except (EOFError, OSError):
                raise Refusal("the process that proves has died; ask again") from None
            finally:
                if not ended:
                    self._stop(connection)

    def proof(self, text: str, cancelled: Callable[[], bool]) -> Proof:
        """Return the verdict alone, which a page has mostly seen before; refuse a text that has none."""
        found = self._verdicts.get(text)
        for line in self.lines(text, cancelled) if found is None else ():
            if isinstance(line, Missing):
                raise Refusal(line.text)
            if isinstance(line, Proof):
                return line
        if found is None:
            raise Refusal("the process that proves gave no verdict; ask again")
        return found

    def _noted(self, text: str, line: Line) -> Line:
        if isinstance(line, Refused):
            raise Refusal(line.error)
        if isinstance(line, Proof):
            self._verdicts.put(text, line)
        return line

    def close(self) -> None:
        """End the process, also in the middle of an answer."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()

    def _ready(self, page: str) -> Connection:
        if self._process is None or not self._process.is_alive() or page != self._page:
            self.close()
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._connection, self._page = ours, page
        assert self._connection is not None
        return self._connection

    @staticmethod
    def _receive(connection: Connection, cancelled: Callable[[], bool]) -> bytes:
        while not connection.poll(TICK_SECONDS):
            if cancelled():
                raise Superseded
        return connection.recv_bytes()

    def _stop(self, connection: Connection) -> None:
        """Bring an answer to its end; what was proved so far is remembered if that does not take long."""
        try:
            connection.send_bytes(END)
            while connection.poll(GRACE_SECONDS):
                if connection.recv_bytes() == END:
                    return
        except (EOFError, OSError):
            pass
        self.close()
