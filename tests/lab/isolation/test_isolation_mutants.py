"""Each rule of the levels and of lists, broken: some random history must be judged wrongly."""

from __future__ import annotations

import pytest

from coterie.lab.isolation.part import Part, parts
from coterie.lab.isolation.visibility import Views
from coterie.lab.serializability import checker
from coterie.lab.serializability.dependencies import dependencies
from coterie.lab.serializability.lists import Lists
from tests.lab.isolation.test_isolation_random import differing
from tests.lab.serializability.test_lists import drawn
from tests.transactions.mutants import Mutant, break_rule
from tests.transactions.serial_oracle import serializable

LEVEL_MUTANTS = {
    "reads are in no order": Mutant(Part, "yield writer, reader", "pass"),
    "stated versions are in no order": Mutant(Part, "yield from itertools.pairwise(known)", "pass"),
    "sessions are in no order": Mutant(Part, "if sessions:", "if False:"),
    "the beginning may be read at any time": Mutant(
        Views,
        "if rivals:\n                    return False",
        "if False:\n                    return False",
    ),
    "atomic sees no session": Mutant(
        Views, "[a | b for a, b in zip(self.read_from, self.before, strict=True)]", "self.read_from"
    ),
    "causes are not followed": Mutant(Views, "mine |= past[one]", "pass"),
    "writes follow only what others of the session have read": Mutant(
        Views,
        "known = [a | b for a, b in zip(self.met(order), self.read_from, strict=True)]",
        "known = self.met(order)",
    ),
    "keys are parts of their own": Mutant(
        parts, "groups.join_all([reader, *observation.writers.get(key, ())[:1]])", "pass"
    ),
}
LIST_MUTANTS = {
    "aborted elements are let pass": Mutant(
        Lists, "write.owner.outcome is TransactionOutcome.ABORTED", "False"
    ),
    "parts of appends are let pass": Mutant(
        Lists, "writes and not self.sources.is_final(writes[-1])", "False"
    ),
    "any order will do": Mutant(
        Lists, "seen.elements != longest.elements[: len(seen.elements)]", "False"
    ),
    "appends may interleave": Mutant(Lists, "gap is not None and gap < len(owners)", "False"),
    "the unseen stands nowhere": Mutant(
        dependencies, 'yield Edge(reader, last, "rw", key)', "pass"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVEL_MUTANTS)
def test_a_broken_rule_of_a_level_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(LEVEL_MUTANTS[name], monkeypatch)

    def notices(seed: int) -> bool:
        try:
            return bool(differing(seed, sessions=True))
        except (AssertionError, IndexError, KeyError):
            return True

    assert any(map(notices, range(1500)))


@pytest.mark.parametrize("name", LIST_MUTANTS)
def test_a_broken_rule_of_lists_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(LIST_MUTANTS[name], monkeypatch)

    def notices(seed: int) -> bool:
        told = drawn(seed)
        try:
            return checker.check(told).serializable != serializable(told)
        except (AssertionError, ValueError):
            return True

    assert any(map(notices, range(3000)))
