"""Rules of two-phase locking, broken one at a time: something must notice, and it says what."""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.transactions.locking_faults import (
    attempts_against_a_stream,
    needless_refusals,
    starved,
    storms,
    victims,
    waits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "coterie.transactions.schemes.two_phase_locking"
# Each uses those before it only.
MODULES = ("claims", "lines", "lock_table", "locking", "detection", "by_age")
CLASSES = {
    "detection": ("detection", "Detection"),
    "wait-die": ("by_age", "WaitDie"),
    "wound-wait": ("by_age", "WoundWait"),
}


class Mutant(NamedTuple):
    """Text of some modules, replaced; what must notice it, and with which variant."""

    changes: tuple[tuple[str, str, str], ...]  # module, what stands there, what shall
    noticed: str
    variant: str = "detection"


def change(module: str, old: str, new: str) -> tuple[tuple[str, str, str], ...]:
    return ((module, old, new),)


def broken(mutant: Mutant) -> dict[str, ModuleType]:
    """Import all modules of the package anew, with the mutant's lines in them."""
    modules = {}
    for name in MODULES:
        source = inspect.getsource(importlib.import_module(f"{PACKAGE}.{name}"))
        for module, old, new in mutant.changes:
            if module == name:
                assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times"
                source = source.replace(old, new)
        for other in MODULES:
            source = source.replace(f"{PACKAGE}.{other} import", f"{PACKAGE}.{other}_broken import")
        module_ = ModuleType(f"{PACKAGE}.{name}_broken")
        sys.modules[module_.__name__] = module_  # where the others and msgspec look for it
        exec(compile(source, name, "exec"), module_.__dict__)  # noqa: S102 - our own source
        modules[name] = module_
    return modules


def scheduler_of(mutant: Mutant) -> Callable[[], Any]:
    module, name = CLASSES[mutant.variant]
    build: Callable[[], Any] = getattr(broken(mutant)[module], name)
    return build


MUTANTS = {
    # Locks
    "shared goes with exclusive": Mutant(
        change("claims", "one is EXCLUSIVE or other is EXCLUSIVE", "one is other is EXCLUSIVE"),
        "not serializable",
    ),
    "update goes with update": Mutant(
        change("claims", "(one is UPDATE and other is UPDATE)", "False"), "needless"
    ),
    "reads lock nothing": Mutant(
        change(
            "locking",
            "if not self.locks.acquire(name, key, UPDATE if update else SHARED):",
            "if False:",
        ),
        "not serializable",
    ),
    "reads of what is absent lock nothing": Mutant(
        change(
            "locking",
            "if not self.locks.acquire(name, key, UPDATE if update else SHARED):",
            "if key in self.table.items and not self.locks.acquire(name, key, SHARED):",
        ),
        "not serializable",
    ),
    "writes lock nothing": Mutant(
        (
            ("locking", "if self.locks.acquire(name, key, EXCLUSIVE):", "if True:"),
            ("locking", "self.locks.require(name, key, EXCLUSIVE)", "pass"),
        ),
        "not serializable",
    ),
    "access without a lock": Mutant(
        change("locking", "if self.locks.acquire(name, key, EXCLUSIVE):", "if True:"),
        "without a lock: exclusive",
    ),
    "all locks released at prepare": Mutant(
        (
            ("lock_table", "is not EXCLUSIVE]", "is not None]"),
            ("lock_table", "is EXCLUSIVE]", "is None]"),
            ("locking", "self.locks.require(name, key, EXCLUSIVE)", "pass"),
        ),
        "not serializable",
    ),
    "all locks released at prepare, and the table asked": Mutant(
        (
            ("lock_table", "is not EXCLUSIVE]", "is not None]"),
            ("lock_table", "is EXCLUSIVE]", "is None]"),
        ),
        "without a lock: exclusive",
    ),
    "a number given twice": Mutant(
        change("locking", "self.count += 1\n", "self.count = max(self.count, 1)\n"),
        "has written version [1, 1]",
    ),
    # Lines
    "an upgrade queued last": Mutant(
        change("lines", "sum(other.upgrade for other in queue) if upgrade else", "0 +"), "needless"
    ),
    "an upgrade behind the scans that wait for it": Mutant(
        change("lines", "else queue[place].ticket", "else self.tickets"), "needless"
    ),
    "a writer behind a scan that waits for it": Mutant(
        change("lines", " and not self._awaits(scan, claim):", ":"), "needless"
    ),
    "a scan behind a writer that waits for it": Mutant(
        change("lines", "if not self.covers(claim.owner, key, SHARED):", "if True:"), "needless"
    ),
    "a writer in its own range is no upgrade": Mutant(
        change("lines", "return mode is SHARED and any(", "return mode is None and any("),
        "stuck",
    ),
    "readers overtake a writer in line": Mutant(
        change("lines", "if conflict(other.mode, claim.mode):", "if False:"), "starved"
    ),
    "scans overtake a writer in line": Mutant(
        change("lines", "if other.mode is EXCLUSIVE and other.ticket < claim.ticket:", "if False:"),
        "starved",
    ),
    "writers overtake a scan in line": Mutant(
        change("lines", "and scan.ticket < claim.ticket and", "and scan.ticket < 0 and"), "starved"
    ),
    "only the first in line is granted": Mutant(
        change(
            "lock_table",
            "granted.append(claim)",
            "granted.append(claim)\n                    break",
        ),
        "stuck",
    ),
    "scans are not granted": Mutant(
        change("lock_table", "in tuple(self.scans) if", "in () if"), "stuck"
    ),
    "a cancelled waiter does not wake the next": Mutant(
        change("lock_table", "freed.append(claim.target)", "pass"), "stuck"
    ),
    "a cancelled scan does not wake the next": Mutant(
        change("lock_table", "spans.append(claim.target)", "pass"), "stuck"
    ),
    "a cancelled waiter stays in line": Mutant(
        change("lock_table", "self._dequeue(claim)\n            if", "pass\n            if"),
        "requests and claims differ",
    ),
    # Ranges
    "no range locks": Mutant(
        change("lines", "self.spans.setdefault(owner, []).append(target)", "pass"),
        "not serializable",
    ),
    "writers ignore ranges": Mutant(
        change(
            "lines",
            "if claim.mode is EXCLUSIVE:\n            yield",
            "if False:\n            yield",
        ),
        "not serializable",
    ),
    "ranges ignore writers": Mutant(
        change("lines", "if holder != claim.owner and mode is EXCLUSIVE:", "if False:"),
        "not serializable",
    ),
    # Deadlocks
    "deadlocks not looked for": Mutant(
        change("detection", "while cycle := self._cycle(claim.owner):", "while cycle := ():"),
        "stuck",
    ),
    "no queue edges": Mutant(
        change(
            "detection",
            "for other in self.locks.blockers(claim):",
            "for other in self.locks.held.get(str(claim), ()):\n"
            "                if other == waiter:\n"
            "                    continue",
        ),
        "stuck",
    ),
    "a line walked for an upgrade": Mutant(
        change("detection", "if not claim.upgrade and not self", "if not self"), "stuck"
    ),
    "a line walked while scans wait": Mutant(
        change("detection", "not claim.upgrade and not self.locks.scans:", "not claim.upgrade:"),
        "stuck",
    ),
    "a line walked for a weaker claim": Mutant(
        change("detection", "claim.mode <= walked.mode and ", ""), "stuck"
    ),
    "one cycle broken of several": Mutant(
        change(
            "detection",
            "while cycle := self._cycle(claim.owner):",
            "if cycle := self._cycle(claim.owner):",
        ),
        "stuck",
    ),
    "whoever closes the deadlock is the victim": Mutant(
        change("detection", "max(cycle, key=self._juniority)", "cycle[0]"), "victims"
    ),
    "the oldest is the victim": Mutant(
        change("detection", "max(cycle, key=self._juniority)", "min(cycle, key=self._juniority)"),
        "victims",
    ),
    "always the same victim": Mutant(
        change("detection", "attempt.failures < PICKS_MAX, ", "True, "), "victims"
    ),
    # Ages
    "wait-die inverted": Mutant(
        change("by_age", "if self._age(name) < age]", "if self._age(name) > age]"),
        "which are older",
        "wait-die",
    ),
    "wound-wait inverted": Mutant(
        change("by_age", "if self._age(name) > age]", "if self._age(name) < age]"),
        "which are younger",
        "wound-wait",
    ),
    "wait-die compares with one holder": Mutant(
        change(
            "by_age",
            "in self._before(claim) if self._age(name) < age]",
            "in self._before(claim)[:1] if self._age(name) < age]",
        ),
        "which are older",
        "wait-die",
    ),
    "wound-wait compares with one holder": Mutant(
        change(
            "by_age",
            "in self._before(claim) if self._age(name) > age]",
            "in self._before(claim)[:1] if self._age(name) > age]",
        ),
        "which are younger",
        "wound-wait",
    ),
    "wait-die ignores those in line": Mutant(
        change(
            "by_age",
            "self.locks.blockers(claim)))",
            "n for n in self.locks.held.get(str(claim), ()) if n != claim.owner))",
        ),
        "which are older",
        "wait-die",
    ),
    "wound-wait ignores those in line": Mutant(
        change(
            "by_age",
            "self.locks.blockers(claim)))",
            "n for n in self.locks.held.get(str(claim), ()) if n != claim.owner))",
        ),
        "which are younger",
        "wound-wait",
    ),
    "wait-die does not look again when somebody is overtaken": Mutant(
        change("by_age", "in tuple(self.locks.behind(key)):", "in ():"), "waits", "wait-die"
    ),
    "wound-wait does not look again when somebody is overtaken": Mutant(
        change("by_age", "in tuple(self.locks.behind(key)):", "in ():"), "waits", "wound-wait"
    ),
    "a prepared transaction is wounded": Mutant(
        change("by_age", " and not self.active[name].prepared:", ":"),
        "is prepared, so nothing local ends it",
        "wound-wait",
    ),
    "wait-die with a new age at every attempt": Mutant(
        change(
            "by_age", "return attempt.age, attempt.stamp", "return attempt.stamp, attempt.stamp"
        ),
        "never commits",
        "wait-die",
    ),
    "wound-wait with a new age at every attempt": Mutant(
        change(
            "by_age", "return attempt.age, attempt.stamp", "return attempt.stamp, attempt.stamp"
        ),
        "never commits",
        "wound-wait",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    build = scheduler_of(mutant)
    match mutant.noticed:
        case "needless":
            assert needless_refusals(build)
        case "starved":
            assert starved(build)
        case "victims":
            assert (victims(build, 0), victims(build, 3)) != ({"T2"}, {"T1"})
        case "waits":
            assert "waits for" in waits(build, mutant.variant)
        case "never commits":
            assert attempts_against_a_stream(build(), keeps_age=True) is None
        case "not serializable" | "stuck" as fault:
            assert storms(build, mutant.variant, watched=False) == fault
        case fault:
            assert fault in storms(build, mutant.variant, watched=True)


@pytest.mark.parametrize("variant", CLASSES)
def test_nothing_is_noticed_of_the_rules_as_they_are(variant: str) -> None:
    build = scheduler_of(Mutant((), "nothing", variant))
    assert storms(build, variant, watched=True) == "nothing"
    assert waits(build, variant) == "nothing"
    if variant == "detection":
        assert not needless_refusals(build)
        assert not starved(build)
        assert (victims(build, 0), victims(build, 3)) == ({"T2"}, {"T1"})
    else:
        assert attempts_against_a_stream(build(), keeps_age=True) == 2
