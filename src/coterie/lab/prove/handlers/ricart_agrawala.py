"""The handlers of Ricart and Agrawala's algorithm do what the steps of its page say.

Not in the states that a search reaches, but in every state that fulfils the clauses, with times of any
size and for any number of entries. The number of processes is fixed. Proved for the page and shown of
the handlers, a clause holds of the code: it holds at the start, and each handler keeps it.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.algorithms.mutex.permission.ricart_agrawala.plain import RicartAgrawala
from coterie.clocks import Stamp
from coterie.lab.prove.pages.mutex import ricart_agrawala as algorithm
from coterie.lab.prove.solver import z3
from coterie.lab.prove.symbolic import AnyInteger, AnySet, Followed, Paths, claims_of, term_of
from coterie.lab.prove.theory import Theory
from coterie.process import Outbox, ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie.lab.prove.page import Action
    from coterie.lab.prove.symbolic import Way
    from coterie.lab.prove.terms import Term
    from coterie.lab.prove.theory import Meaning

PAGE = algorithm.PAGE


class Given(NamedTuple):
    """An input of a process: a call, or a message of a peer."""

    step: str  # of the page
    me: ProcessId
    peer: ProcessId | None = None

    def __str__(self) -> str:
        """Write it as in a run."""
        of = "" if self.peer is None else f" of process {self.peer}"
        return f"process {self.me}, {self.step.replace('_', ' ')}{of}"


class HandlerComparison:
    """Handlers beside steps, for so many processes."""

    def __init__(self, size: int, kind: type[Any] = RicartAgrawala) -> None:
        """Read the page with integers as times."""
        self.ids = range(1, size + 1)
        self._kind = kind
        module = sys.modules[kind.__module__]  # whose messages it knows
        self._request, self._reply = module.Request, module.Reply
        self._theory = Theory(PAGE, size, integers=(algorithm.Time,))
        self._symbols = {symbol.name: symbol for symbol in PAGE.symbols}
        self._actions = {action.name: action for action in PAGE.actions}
        self._clauses = self._theory.holds(PAGE.clauses)
        self._things = dict(zip(self.ids, self._theory.elements[algorithm.Process], strict=True))

    def inputs(self) -> Iterator[Given]:
        """List every input of every process."""
        for me in self.ids:
            yield Given("acquire", me)
            yield Given("release", me)
            for peer in self.ids:
                if peer != me:
                    yield Given("receive_request", me, peer)
                    yield Given("receive_reply", me, peer)

    def follow(self) -> Followed:
        """Go every way through every handler, and hold it against the step of the page."""
        found = Followed(len(self.ids))
        for given in self.inputs():
            action = self._actions[given.step]
            scope = self._scope(action, given)
            possible = self._theory.read(action.guard, scope, self._theory.before)
            after = self._theory.after(action, scope)
            known = [*self._clauses, possible]
            paths = Paths(known)
            for way in paths.each(partial(self._handle, paths, given)):
                found.ways += 1
                trouble = self._compare(given, way, known, after)
                if trouble:
                    found.troubles.append(f"{given}: {trouble}")
        return found

    def _scope(self, action: Action, given: Given) -> dict[Any, Any]:
        """Choose the arguments of the step; a new request is one later than the clock."""
        arguments = [self._things[given.me]]
        if given.step == "acquire":
            arguments.append(self._now("clock", given.me) + 1)
        elif given.peer is not None:
            arguments.append(self._things[given.peer])
        return dict(zip(action.params, arguments, strict=True))

    def _now(self, name: str, *ids: ProcessId, meaning: Meaning | None = None) -> Any:
        found = (self._theory.before if meaning is None else meaning)[self._symbols[name]]
        return found(*(self._things[each] for each in ids))

    def _handle(self, paths: Paths, given: Given) -> tuple[Any, Outbox[Any]] | Exception:
        """Run a handler of the class, in any state."""
        me, peer = given.me, given.peer
        process, out = self._process(paths, me), Outbox[Any](me)
        try:
            if peer is None:
                getattr(process, given.step)(out)
            elif given.step == "receive_reply":
                process.receive(peer, self._reply(), out)
            else:
                stamp = Stamp(AnyInteger(paths, self._now("stamp", peer, me)), peer)  # type: ignore[arg-type]
                process.receive(peer, self._request(stamp), out)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is a difference
            return error
        return process, out

    def _process(self, paths: Paths, me: ProcessId) -> Any:
        process = self._kind(me, len(self.ids))
        process.highest = AnyInteger(paths, self._now("clock", me))
        if paths.decide(self._now("asking", me)):
            process.stamp = Stamp(AnyInteger(paths, self._now("time", me)), me)  # type: ignore[arg-type]
        process.awaiting = self._members(paths, "awaiting", me)
        process.deferred = self._members(paths, "deferred", me)
        return process

    def _members(self, paths: Paths, name: str, me: ProcessId) -> AnySet:
        return AnySet(paths, {peer: self._now(name, me, peer) for peer in self.ids})

    def _compare(self, given: Given, way: Way, known: Iterable[Any], after: Meaning) -> str:
        """Say which field or message differs from the page, in some state; nothing if none does."""
        if isinstance(way.result, Exception):
            return f"raises {type(way.result).__name__}: {way.result}"
        solver = z3.Solver()
        solver.add(*known, *way.conditions)
        for (name, *ids), value in self._outcome(given, *way.result).items():
            if solver.check(self._now(name, *ids, meaning=after) != value) != z3.unsat:
                return f"{name}({', '.join(map(str, ids))}) is not what the page says"
        told = z3.BoolVal(bool(way.result[1].events))
        if solver.check(told != self._enters(given.me, after)) != z3.unsat:
            return "Entered is not told as the page says"
        return ""

    def _outcome(self, given: Given, process: Any, out: Outbox[Any]) -> dict[tuple[Any, ...], Any]:
        """Return the state after the handler, as far as it is of this process and its links."""
        me, sent = given.me, {(to, type(message)): message for to, message in out.sends}
        found: dict[tuple[Any, ...], Any] = {
            ("asking", me): z3.BoolVal(process.stamp is not None),
            ("clock", me): term_of(process.highest),
        }
        if process.stamp is not None:
            found["time", me] = term_of(process.stamp.time)
        for peer in self.ids:
            found["awaiting", me, peer] = claims_of(process.awaiting, self.ids)[peer]
            found["deferred", me, peer] = claims_of(process.deferred, self.ids)[peer]
            for name, kind in (("request", self._request), ("reply", self._reply)):
                comes = z3.BoolVal((peer, kind) in sent)
                found[name, me, peer] = z3.Or(self._now(name, me, peer), comes)
            if (peer, self._request) in sent:
                found["stamp", me, peer] = term_of(sent[peer, self._request].stamp.time)
        if given.peer is not None:
            found[given.step.removeprefix("receive_"), given.peer, me] = z3.BoolVal(False)
        return found

    def _enters(self, me: ProcessId, after: Meaning) -> Any:
        """Say that the process is inside after the step and was not before."""
        variable = algorithm.Process("var", (), "p")
        scope: dict[Term, Any] = {variable: self._things[me]}
        is_inside = algorithm.inside(variable)
        was = self._theory.read(is_inside, scope, self._theory.before)
        return z3.And(self._theory.read(is_inside, scope, after), z3.Not(was))


def follow(size: int, kind: type[Any] = RicartAgrawala) -> Followed:
    """Compare the handlers of a class with the page, for so many processes."""
    return HandlerComparison(size, kind).follow()
