"""Each line of the store that keeps its promises, broken: the storms notice."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from coterie.errors import MisuseError
from coterie.lab.serializability import check
from coterie.transactions import Store, Transaction
from coterie.transactions.store.local import LocalExecutor
from tests.transactions.jumbled import StuckError, assert_idle
from tests.transactions.mutants import Mutant, break_rule
from tests.transactions.test_store_storms import run_storm


class Case(NamedTuple):
    mutant: Mutant
    variant: str = "detection"  # of two-phase locking


MUTANTS = {
    "who is cancelled while it waits keeps its place": Case(
        Mutant(
            Transaction,
            "CancelledError, MisuseError, Unavailable):\n            self._executor.abort(self._name)\n",
            "CancelledError, MisuseError, Unavailable):\n",
        ),
    ),
    "who is cancelled between two requests keeps its locks": Case(
        Mutant(
            Transaction,
            '            self._executor.abort(self._name)\n            self._end("aborted")\n\n',
            '            self._end("aborted")\n\n',
        ),
    ),
    "an exception leaves the locks where they are": Case(
        Mutant(
            Transaction,
            "            await self._raise_if_invalid(error)\n",
            '            self._end("aborted")\n',
        ),
    ),
    "who was pushed out is not told": Case(
        Mutant(LocalExecutor, "if name in self._refused:", "if not name:"), "wound-wait"
    ),
    "an abort wakes nobody": Case(
        Mutant(
            LocalExecutor,
            "            self.scheduler.abort(name, out)\n            self._tell(out)\n",
            "            self.scheduler.abort(name, out)\n",
        ),
    ),
    "a commit wakes nobody": Case(
        Mutant(
            LocalExecutor,
            "            self._tell(answer for answer in out if answer is not mine)\n",
            "",
        ),
    ),
    "an abort leaves an open question": Case(
        Mutant(
            LocalExecutor,
            "        self._waiting.pop(name, None)\n        self._val",
            "        self._val",
        ),
    ),
    "a validation commits": Case(
        Mutant(
            LocalExecutor,
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


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = MUTANTS[name]
    break_rule(case.mutant, monkeypatch)
    assert is_noticed(case.variant)


@pytest.mark.slow
@pytest.mark.parametrize("variant", sorted({case.variant for case in MUTANTS.values()}))
def test_nothing_is_noticed_where_nothing_is_broken(variant: str) -> None:
    assert not is_noticed(variant)
