"""Each line of the store that keeps its promises, broken: the storms notice."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from coterie.errors import MisuseError
from coterie.transactions import Store
from coterie.transactions.serializability import check
from tests.harness import Mutant, broken
from tests.transactions.jumbled import StuckError, assert_idle
from tests.transactions.test_store_storms import run_storm

PACKAGE = "coterie.transactions.store"


class Case(NamedTuple):
    module: str
    name: str  # of the class that is replaced
    mutant: Mutant
    variant: str = "detection"  # of two-phase locking


MUTANTS = {
    "who is cancelled while it waits keeps its place": Case(
        "transaction",
        "Transaction",
        Mutant(
            "CancelledError, MisuseError):\n            self._executor.abort(self._name)\n",
            "CancelledError, MisuseError):\n",
        ),
    ),
    "who is cancelled between two requests keeps its locks": Case(
        "transaction",
        "Transaction",
        Mutant(
            '            self._executor.abort(self._name)\n            self._end("aborted")\n\n',
            '            self._end("aborted")\n\n',
        ),
    ),
    "an exception leaves the locks where they are": Case(
        "transaction",
        "Transaction",
        Mutant(
            "            await self._raise_if_invalid(error)\n",
            '            self._end("aborted")\n',
        ),
    ),
    "who was pushed out is not told": Case(
        "local", "LocalExecutor", Mutant("if name in self._refused:", "if not name:"), "wound-wait"
    ),
    "an abort wakes nobody": Case(
        "local",
        "LocalExecutor",
        Mutant(
            "            self._scheduler.abort(name, out)\n            self._tell(out)\n",
            "            self._scheduler.abort(name, out)\n",
        ),
    ),
    "a commit wakes nobody": Case(
        "local",
        "LocalExecutor",
        Mutant("            self._tell(answer for answer in out if answer is not mine)\n", ""),
    ),
    "an abort leaves an open question": Case(
        "local",
        "LocalExecutor",
        Mutant("        self._waiting.pop(name, None)\n        self._val", "        self._val"),
    ),
    "a validation commits": Case(
        "local",
        "LocalExecutor",
        Mutant(
            "            self.abort(name)\n            return None\n",
            "            return self._decide(answer)\n",
        ),
    ),
}


def is_noticed(variant: str) -> bool:
    for seed in range(60):
        store = Store("two-phase-locking", variant=variant, record=True)
        try:
            run_storm(store, seed)
            assert_idle(store)
        except (AssertionError, KeyError, MisuseError, StuckError):
            return True
        if not check(store.history()).serializable:
            return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = MUTANTS[name]
    assert not is_noticed(case.variant), "the control"
    module = broken(f"{PACKAGE}.{case.module}", case.mutant)
    monkeypatch.setattr(f"{PACKAGE}.store.{case.name}", getattr(module, case.name))
    monkeypatch.setattr("tests.transactions.jumbled.LocalExecutor", object)
    assert is_noticed(case.variant)
