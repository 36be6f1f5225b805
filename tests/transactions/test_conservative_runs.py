"""Conservative transactions in all interleavings and in storms, at one site and at several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.clocks import Stamp
from coterie.transactions.schemes.conservative import SCHEME, Conservative
from coterie.transactions.schemes.scheduler import EVERYTHING, Attempt, Declaration
from coterie.transactions.schemes.span import Span
from coterie.transactions.serializability import check
from coterie.transactions.trials.trial import Runner, Trial, explore, program
from tests.harness import Mutant, broken
from tests.transactions.announced import Announced, announced_storm
from tests.transactions.desk import Tally, faulty, table_row, tally, trial_of
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.transactions.schemes.scheduler import Answer, Scheduler

DOCS = Path(__file__).parent.parent.parent / "docs"
KEYS = tuple("abcdxyz")

LOST_UPDATE = ("u(x) w(x)", "r(x) w(x)")
WRITE_SKEW = ("r(x) w(y)", "r(y) w(x)")
READ_SKEW = ("r(x) r(y)", "w(x) w(y)")
INSERTS = ("s(a,c) w(a)", "s(a,c) w(b)")
DELETES = ("s(a,c) s(a,c)", "w(a) d(b)")
INSTALLS = ("w(x)", "w(x) w(y)", "r(x) r(y)")
THREE_SKEWED = ("r(x) w(y)", "r(y) w(z)", "r(z) w(x)")
DISJOINT = ("u(x) w(x)", "u(y) w(y)")
GIVEN_UP = ("w(x) a", "r(x) w(y)", "r(y)")

EXPLORED: list[tuple[tuple[str, ...], str, int]] = [
    (LOST_UPDATE, "classes", 5),
    (LOST_UPDATE, "unanalysed", 5),
    (WRITE_SKEW, "classes", 5),
    (READ_SKEW, "classes", 55),
    (READ_SKEW, "unanalysed", 55),
    (INSERTS, "classes", 5),
    (DELETES, "classes", 55),
    (INSTALLS, "classes", 160),
    (INSTALLS, "unanalysed", 160),
    (THREE_SKEWED, "classes", 45),
    (DISJOINT, "classes", 70),
    (DISJOINT, "unanalysed", 17),
]

EXPLORED_AT_TWO_SITES: list[tuple[tuple[str, ...], str, int]] = [
    (WRITE_SKEW, "classes", 7),
    (("w(x) w(y)", "w(y) w(x)"), "classes", 140),
    (("r(x) w(y)", "w(x)", "r(y)"), "classes", 1348),
    (("r(x) w(y)", "w(x)", "r(y)"), "unanalysed", 1348),
]


def in_order(scheduler: Scheduler, scripts: Sequence[str]) -> Tally:
    """Judge all interleavings of transactions that begin in the order of their stamps.

    That they have all begun before the first moves costs no generality: the older ones do not
    notice whether a younger one has begun.
    """
    trial = Trial(scheduler, KEYS)
    for number, text in enumerate(scripts, start=1):
        trial.add(f"T{number}", number, text)
        trial.begin(f"T{number}")
    return tally(explore(trial))


@pytest.mark.parametrize(("scripts", "variant", "ends"), EXPLORED)
def test_all_interleavings_are_serializable_and_everybody_commits(
    scripts: tuple[str, ...], variant: str, ends: int
) -> None:
    """2.5 g: nobody is refused, nobody waits for ever."""
    expected = Tally(ends, ends * len(scripts), refused=0, stuck=0, wrong=0)
    assert in_order(SCHEME.build(variant), scripts) == expected


def test_aborts_by_users_leave_nothing_behind() -> None:
    assert in_order(SCHEME.build(), GIVEN_UP) == Tally(21, 42, refused=0, stuck=0, wrong=0)


@pytest.mark.parametrize("variant", ["classes", "unanalysed"])
def test_storms_are_serializable_and_nobody_is_refused(variant: str) -> None:
    """2.5 g: zero aborts is an invariant, those that users asked for excepted."""
    for seed in range(300):
        trial = storm(SCHEME.build(variant), seed, in_order=True)
        states = {runner.state for runner in trial.runners.values()}
        assert states <= {"committed", "aborted"}, f"seed {seed}"
        assert check(trial.history()).serializable, f"seed {seed}"
        assert not trial.scheduler.active, f"seed {seed}"


class Watched(Conservative):
    """Looks at every wait: who waits has the larger stamp."""

    def _go_on(self, out: list[Any]) -> None:
        super()._go_on(out)
        for name, others in self.waits().items():
            stamp = self.active[name].attempt.stamp
            assert all(self.active[other].attempt.stamp < stamp for other in others)
            assert others or self.awaited(), f"nobody is in the way of {name}"


def test_waits_go_from_larger_stamps_to_smaller_ones() -> None:
    """2.2 f: so there is no deadlock; and whoever is in nobody's way waits for nobody."""
    for seed in range(100):
        assert not storm(Watched(), seed, in_order=True).waiting(), f"seed {seed}"


def test_the_page_states_what_was_explored() -> None:
    page = (DOCS / "transactions" / "conservative.md").read_text(encoding="utf-8").splitlines()
    for scripts, variant, ends in [*EXPLORED, *EXPLORED_AT_TWO_SITES]:
        found = Tally(ends, ends * len(scripts), refused=0, stuck=0, wrong=0)
        assert table_row(scripts, variant, found) in page


# Several sites


def sites(scripts: Sequence[str], build: Callable[[], Scheduler]) -> Announced:
    """Let two sites begin the transactions in turn."""
    trial = Announced([build(), build()], ("x", "y"), homes={"x": 0, "y": 1})
    for number, text in enumerate(scripts):
        trial.join(f"T{number + 1}", number // 2 + 1, number % 2 + 1, text)
    return trial


@pytest.mark.parametrize(("scripts", "variant", "ends"), EXPLORED_AT_TWO_SITES)
def test_all_interleavings_over_two_sites_are_serializable(
    scripts: tuple[str, ...], variant: str, ends: int
) -> None:
    """2.5 g: with every order of prepares and commits at the two sites, and promises on demand."""
    trial = sites(scripts, lambda: SCHEME.build(variant, 1, 2))
    expected = Tally(ends, ends * len(scripts), refused=0, stuck=0, wrong=0)
    assert tally(explore(trial)) == expected


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("variant", ["classes", "unanalysed"])
def test_storms_over_sites_are_serializable_and_nobody_is_refused(count: int, variant: str) -> None:
    """2.5 c, g: sites that have nothing to begin promise when they are asked."""
    for seed in range(150):
        build = [SCHEME.build(variant, site, count) for site in range(1, count + 1)]
        trial = announced_storm(build, seed)
        states = {runner.state for runner in trial.runners.values()}
        assert states <= {"committed", "aborted"}, f"seed {seed}"
        assert check(trial.history()).serializable, f"seed {seed}"


def test_with_one_site_idle_everybody_gets_through() -> None:
    """2.5 c: liveness, by promises of the idle site alone."""
    trial = Announced(
        [Conservative(sites=2), Conservative(sites=2)], ("x", "y"), homes={"x": 0, "y": 1}
    )
    for time in range(1, 6):
        trial.join(f"T{time}", time, 1, "r(x) w(y)")
    while trial.movable():
        trial.move(trial.movable()[0])
    assert {runner.state for runner in trial.runners.values()} == {"committed"}
    assert trial.nulls == 10  # one for each transaction at each of its two sites


# Mutants

ORDERING = "coterie.transactions.schemes.conservative.ordering"
SOURCES = "coterie.transactions.schemes.conservative.sources"

MUTANTS = {
    "older ones are not waited for": (
        Mutant("if other.attempt.stamp < stamp and _has_to", "if False and _has_to"),
        LOST_UPDATE,
    ),
    "younger ones are waited for instead": (
        Mutant("if other.attempt.stamp < stamp and", "if stamp < other.attempt.stamp and"),
        LOST_UPDATE,
    ),
    "writes do not wait": (
        Mutant(
            "Request(tuple(map(Span.of, active.writes)), writing=True)", "Request((), writing=True)"
        ),
        INSTALLS,
    ),
    "older reads are not waited for": (
        Mutant(
            "disturbs(other.attempt.declaration, request.spans, request.writing)",
            "disturbs(other.attempt.declaration, request.spans, False)",
        ),
        READ_SKEW,
    ),
    "prepared ones are not waited for": (
        Mutant(
            "return any(key in span for key in other.writes for span in request.spans)",
            "return False",
        ),
        LOST_UPDATE,
    ),
    "nobody goes on after a commit": (
        Mutant(
            "        out.append(Committed(active.attempt.name, stamp))\n        self._go_on(out)\n",
            "        out.append(Committed(active.attempt.name, stamp))\n",
        ),
        LOST_UPDATE,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_rule_is_needed(name: str) -> None:
    mutant, scripts = MUTANTS[name]
    found = in_order(broken(ORDERING, mutant).Conservative(), scripts)
    assert found.wrong + found.stuck > 0


def with_sources(mutant: Mutant) -> Any:
    """Build the scheduler on broken sources."""
    broken(SOURCES, mutant)
    line = "from coterie.transactions.schemes.conservative.sources import Sources"
    module = broken(ORDERING, Mutant(line, line.replace(".sources", ".sources_broken")))
    return module.Conservative


def test_without_promises_an_older_one_comes_too_late() -> None:
    """2.5 a: a mutant."""
    build = with_sources(Mutant("if promise < stamp", "if False"))
    assert faulty(explore(sites(WRITE_SKEW, lambda: build(sites=2))))


def test_writes_that_do_not_wait_for_the_word_of_readers_are_seen_in_part() -> None:
    """2.5 c: a mutant. Site 1 only writes, site 2 only reads; the reader is the older one."""
    both = (Span.of("x"), Span.of("y"))
    classes = ((Declaration((), both),), (Declaration(both, ()),))
    mutant = Mutant("disturbs(declared, spans, writing)", "disturbs(declared, spans, False)")
    for build, right in ((Conservative, True), (with_sources(mutant), False)):
        schedulers = [build(sites=2, classes=classes) for _ in range(2)]
        trial = Announced(schedulers, ("x", "y"), homes={"x": 0, "y": 1})
        trial.join("T1", 2, 1, "w(x) w(y)")
        trial.join("T2", 1, 2, "r(x) r(y)")
        assert faulty(explore(trial)) is not right


def test_a_site_that_keeps_to_no_class_is_not_waited_for() -> None:
    """2.5 d: a mutant. Site 2 may read z, and does something else."""
    classes = ((EVERYTHING,), (Declaration((Span.of("z"),), ()),))
    build = with_sources(Mutant("elif self.classes and not", "elif False and not"))
    schedulers = [build(sites=2, classes=classes) for _ in range(2)]
    trial = Announced(schedulers, ("x", "y"), homes={"x": 0, "y": 1})
    trial.join("T1", 2, 1, "r(x) w(y)")
    trial.join("T2", 1, 2, "r(y) w(x)")
    assert faulty(explore(trial))


def test_beginnings_out_of_order_are_not_serializable() -> None:
    """2.5 b: a mutant."""
    build = with_sources(Mutant("if not attempt.stamp > promise:", "if False:"))
    assert faulty(explore(trial_of(build(), LOST_UPDATE, KEYS)))


def test_a_null_below_an_earlier_promise_is_not_serializable() -> None:
    """2.5 c: a mutant. Site 2 promises 7, takes it back, and begins a transaction with 4."""
    build = with_sources(Mutant("if stamp < promise:", "if False:"))
    trial = Announced([build(sites=2)], ("x", "y"), homes={"x": 0, "y": 0})
    trial.join("T5", 5, 1, "r(x) w(y)")
    trial.join("T4", 4, 2, "r(y) w(x)")
    trial.move("T5")
    assert trial.waiting() == ["T5"]
    for time in (7, 3):
        answers: list[Answer] = []
        trial.scheduler[0].promise(2, Stamp(time, 2), answers)
        trial._hear(answers)
    for name in ("T4", "T4", "T4", "T4", "T5", "T5", "T5"):
        trial.keep_promises()
        trial.move(name)
    assert {runner.state for runner in trial.runners.values()} == {"committed"}
    assert not check(trial.history()).serializable


def test_undeclared_accesses_are_not_serializable() -> None:
    """2.5 d: a mutant. Both declare nothing and read and write x."""
    mutant = Mutant("if not any(within(span, other) for other in declared):", "if False:")
    trial = Trial(broken(ORDERING, mutant).Conservative(), ("x",))
    for number in (1, 2):
        stamp = Stamp(number, 1)
        attempt = Attempt(f"T{number}", stamp, stamp, 0, Declaration((), ()))
        trial.runners[attempt.name] = Runner(attempt, program("r(x) w(x)"))
        trial.begin(attempt.name)
    assert faulty(explore(trial))
