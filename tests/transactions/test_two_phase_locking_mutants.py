"""Rules of two-phase locking, broken one at a time: something must notice, and it says what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from coterie.transactions.schemes.two_phase_locking import Detection, LockTable, TwoPhaseLocking
from coterie.transactions.schemes.two_phase_locking.deadlocks import (
    ByAge,
    WaitDie,
    WoundWait,
    is_within,
)
from coterie.transactions.schemes.two_phase_locking.lock_table import conflict
from tests.transactions.locking_faults import (
    attempts_against_a_stream,
    needless_refusals,
    starved,
    storms,
    victims,
    waits,
)
from tests.transactions.mutants import Mutant, break_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.transactions.schemes.scheduler import Scheduler

VARIANTS: dict[str, Callable[[], Scheduler]] = {
    "detection": Detection,
    "wait-die": WaitDie,
    "wound-wait": WoundWait,
}


class Case(NamedTuple):
    """Some rules that are broken; what must notice it, and with which variant."""

    mutants: tuple[Mutant, ...]
    noticed: str
    variant: str = "detection"


def only(target: Any, old: str, new: str) -> tuple[Mutant, ...]:
    return (Mutant(target, old, new),)


RELEASED = """is not EXCLUSIVE]
        if not freed and owner not in self.spans:
            return []
        self.keys[owner] = [key for key in keys if self.held[key][owner] is EXCLUSIVE]
"""
ALL_RELEASED = Mutant(LockTable, RELEASED, RELEASED.replace("EXCLUSIVE", "None"))

MUTANTS = {
    # Locks
    "shared goes with exclusive": Case(
        only(conflict, "one is EXCLUSIVE or other is EXCLUSIVE", "one is other is EXCLUSIVE"),
        "not serializable",
    ),
    "update goes with update": Case(
        only(conflict, "(one is UPDATE and other is UPDATE)", "False"), "needless"
    ),
    "reads lock nothing": Case(
        only(
            TwoPhaseLocking,
            "if not self.locks.acquire(name, key, UPDATE if update else SHARED):",
            "if False:",
        ),
        "not serializable",
    ),
    "reads of what is absent lock nothing": Case(
        only(
            TwoPhaseLocking,
            "if not self.locks.acquire(name, key, UPDATE if update else SHARED):",
            "if key in self.table.items and not self.locks.acquire(name, key, SHARED):",
        ),
        "not serializable",
    ),
    "writes lock nothing": Case(
        (
            Mutant(TwoPhaseLocking, "if self.locks.acquire(name, key, EXCLUSIVE):", "if True:"),
            Mutant(TwoPhaseLocking, "self.locks.require(name, key, EXCLUSIVE)", "pass"),
        ),
        "not serializable",
    ),
    "access without a lock": Case(
        only(TwoPhaseLocking, "if self.locks.acquire(name, key, EXCLUSIVE):", "if True:"),
        "without a lock: exclusive",
    ),
    "all locks released at prepare": Case(
        (
            ALL_RELEASED,
            Mutant(TwoPhaseLocking, "self.locks.require(name, key, EXCLUSIVE)", "pass"),
        ),
        "not serializable",
    ),
    "all locks released at prepare, and the table asked": Case(
        (ALL_RELEASED,),
        "without a lock: exclusive",
    ),
    "a number given twice": Case(
        only(TwoPhaseLocking, "self.count += 1\n", "self.count = max(self.count, 1)\n"),
        "has written version [1, 1]",
    ),
    # Queues
    "an upgrade queued last": Case(
        only(LockTable, "sum(other.upgrade for other in queue) if upgrade else", "0 +"), "needless"
    ),
    "an upgrade behind the scans that wait for it": Case(
        only(LockTable, "else queue[place].ticket", "else self.tickets"), "needless"
    ),
    "a writer behind a scan that waits for it": Case(
        only(LockTable, " and not self._awaits(scan, claim):", ":"), "needless"
    ),
    "a scan behind a writer that waits for it": Case(
        only(LockTable, "if not self.covers(claim.owner, key, SHARED):", "if True:"), "needless"
    ),
    "a writer in its own range is no upgrade": Case(
        only(LockTable, "return mode is SHARED and any(", "return mode is None and any("),
        "stuck",
    ),
    "readers overtake a writer in line": Case(
        only(LockTable, "if conflict(other.mode, claim.mode):", "if False:"), "starved"
    ),
    "scans overtake a writer in line": Case(
        only(LockTable, "if other.mode is EXCLUSIVE and other.ticket < claim.ticket:", "if False:"),
        "starved",
    ),
    "writers overtake a scan in line": Case(
        only(LockTable, "and scan.ticket < claim.ticket and", "and scan.ticket < 0 and"), "starved"
    ),
    "only the first in line is granted": Case(
        only(
            LockTable,
            "granted.append(claim)",
            "granted.append(claim)\n                    break",
        ),
        "stuck",
    ),
    "scans are not granted": Case(only(LockTable, "in tuple(self.scans) if", "in () if"), "stuck"),
    "a cancelled waiter does not wake the next": Case(
        only(LockTable, "freed.append(claim.target)", "pass"), "stuck"
    ),
    "a cancelled scan does not wake the next": Case(
        only(LockTable, "spans.append(claim.target)", "pass"), "stuck"
    ),
    "a cancelled waiter stays in line": Case(
        only(LockTable, "self._dequeue(claim)\n            if", "pass\n            if"),
        "requests and claims differ",
    ),
    # Ranges
    "no range locks": Case(
        only(LockTable, "self.spans.setdefault(owner, []).append(target)", "pass"),
        "not serializable",
    ),
    "writers ignore ranges": Case(
        only(
            LockTable,
            "if claim.mode is EXCLUSIVE:\n            yield",
            "if False:\n            yield",
        ),
        "not serializable",
    ),
    "ranges ignore writers": Case(
        only(LockTable, "if holder != claim.owner and mode is EXCLUSIVE:", "if False:"),
        "not serializable",
    ),
    # Deadlocks
    "deadlocks not looked for": Case(
        only(Detection, "while cycle := self._cycle(claim.owner):", "while cycle := ():"),
        "stuck",
    ),
    "no queue edges": Case(
        only(
            Detection,
            "for other in self.locks.blockers(claim):",
            "for other in self.locks.held.get(str(claim), ()):\n"
            "                if other == waiter:\n"
            "                    continue",
        ),
        "stuck",
    ),
    "a line walked for an upgrade": Case(
        only(Detection, "if not claim.upgrade and not self", "if not self"), "stuck"
    ),
    "a line walked while scans wait": Case(
        only(Detection, "not claim.upgrade and not self.locks.scans:", "not claim.upgrade:"),
        "stuck",
    ),
    "a line walked for a weaker claim": Case(
        only(is_within, "claim.mode <= walked.mode and ", ""), "stuck"
    ),
    "one cycle broken of several": Case(
        only(
            Detection,
            "while cycle := self._cycle(claim.owner):",
            "if cycle := self._cycle(claim.owner):",
        ),
        "stuck",
    ),
    "whoever closes the deadlock is the victim": Case(
        only(Detection, "max(cycle, key=self._juniority)", "cycle[0]"), "victims"
    ),
    "the oldest is the victim": Case(
        only(Detection, "max(cycle, key=self._juniority)", "min(cycle, key=self._juniority)"),
        "victims",
    ),
    "always the same victim": Case(
        only(Detection, "attempt.failures < PICKS_MAX, ", "True, "), "victims"
    ),
    # Ages
    "wait-die inverted": Case(
        only(WaitDie, "if self._age(name) < age]", "if self._age(name) > age]"),
        "which are older",
        "wait-die",
    ),
    "wound-wait inverted": Case(
        only(WoundWait, "if self._age(name) > age]", "if self._age(name) < age]"),
        "which are younger",
        "wound-wait",
    ),
    "wait-die compares with one holder": Case(
        only(
            WaitDie,
            "in self._before(claim) if self._age(name) < age]",
            "in self._before(claim)[:1] if self._age(name) < age]",
        ),
        "which are older",
        "wait-die",
    ),
    "wound-wait compares with one holder": Case(
        only(
            WoundWait,
            "in self._before(claim) if self._age(name) > age]",
            "in self._before(claim)[:1] if self._age(name) > age]",
        ),
        "which are younger",
        "wound-wait",
    ),
    "wait-die ignores those in line": Case(
        only(
            ByAge,
            "self.locks.blockers(claim)))",
            "n for n in self.locks.held.get(str(claim), ()) if n != claim.owner))",
        ),
        "which are older",
        "wait-die",
    ),
    "wound-wait ignores those in line": Case(
        only(
            ByAge,
            "self.locks.blockers(claim)))",
            "n for n in self.locks.held.get(str(claim), ()) if n != claim.owner))",
        ),
        "which are younger",
        "wound-wait",
    ),
    "wait-die does not look again when somebody is overtaken": Case(
        only(ByAge, "in tuple(self.locks.behind(key)):", "in ():"), "waits", "wait-die"
    ),
    "wound-wait does not look again when somebody is overtaken": Case(
        only(ByAge, "in tuple(self.locks.behind(key)):", "in ():"), "waits", "wound-wait"
    ),
    "a prepared transaction is wounded": Case(
        only(WoundWait, " and not self.active[name].prepared:", ":"),
        "is prepared, so nothing local ends it",
        "wound-wait",
    ),
    "wait-die with a new age at every attempt": Case(
        only(ByAge, "return attempt.age, attempt.stamp", "return attempt.stamp, attempt.stamp"),
        "never commits",
        "wait-die",
    ),
    "wound-wait with a new age at every attempt": Case(
        only(ByAge, "return attempt.age, attempt.stamp", "return attempt.stamp, attempt.stamp"),
        "never commits",
        "wound-wait",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants, noticed, variant = MUTANTS[name]
    build = VARIANTS[variant]
    for mutant in mutants:
        break_rule(mutant, monkeypatch)
    match noticed:
        case "needless":
            assert needless_refusals(build)
        case "starved":
            assert starved(build)
        case "victims":
            assert (victims(build, 0), victims(build, 3)) != ({"T2"}, {"T1"})
        case "waits":
            assert "waits for" in waits(build, variant)
        case "never commits":
            assert attempts_against_a_stream(build(), keeps_age=True) is None
        case "not serializable" | "stuck" as fault:
            assert storms(build, variant, watched=False) == fault
        case fault:
            assert fault in storms(build, variant, watched=True)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_noticed_of_the_rules_as_they_are(variant: str) -> None:
    build = VARIANTS[variant]
    assert storms(build, variant, watched=True) == "nothing"
    assert waits(build, variant) == "nothing"
    if variant == "detection":
        assert not needless_refusals(build)
        assert not starved(build)
        assert (victims(build, 0), victims(build, 3)) == ({"T2"}, {"T1"})
    else:
        assert attempts_against_a_stream(build(), keeps_age=True) == 2
